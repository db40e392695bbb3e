"""Quota trees: the charges of each quota by object, from the journals of the trees."""

from projections.quota_trees.keys import charged, prefixes
from projections.quota_trees.shape import Grant, TreeNode
from projections.quota_trees.tree import Tree, TreeOverlay

__all__ = ["Grant", "Tree", "TreeNode", "TreeOverlay", "charged", "prefixes"]

"""Who holds how much of which quota, as the journals of the quota trees say."""

from projections.quota_trees.keys import charged, prefixes
from projections.quota_trees.shape import Grant, Node
from projections.quota_trees.tree import Tree, TreeOverlay

__all__ = ["Grant", "Node", "Tree", "TreeOverlay", "charged", "prefixes"]

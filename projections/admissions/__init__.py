"""Who holds how much of which quota, as the journals of the quota trees say."""

from projections.admissions.keys import charged, prefixes
from projections.admissions.shape import Grant, Node
from projections.admissions.tree import Draft, Tree

__all__ = ["Draft", "Grant", "Node", "Tree", "charged", "prefixes"]

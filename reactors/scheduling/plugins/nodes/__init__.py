"""Plugins for a node's own properties: name, labels, taints and ports."""

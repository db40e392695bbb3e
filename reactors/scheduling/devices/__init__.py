"""Devices of nodes: their rules, their free parts, and the choice for a pod."""

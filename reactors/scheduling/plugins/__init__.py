"""Scheduling plugins, one file each; ``catalogue`` lists them."""

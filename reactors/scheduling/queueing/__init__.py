"""Waiting pods: their order, their back-off, and the changes that wake them."""

"""Waiting pods: their order, their back-off, and the changes to try them again."""

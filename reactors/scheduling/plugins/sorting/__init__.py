"""Plugins for the order of the queue."""

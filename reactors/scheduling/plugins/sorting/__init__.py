"""Plugins that order the queue."""

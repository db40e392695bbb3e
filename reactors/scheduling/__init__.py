"""Scheduling: which node takes a waiting pod, by plugins over columns of numbers. Source: docs/scheduling.md."""

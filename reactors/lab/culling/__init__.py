"""Culling under another policy on recorded history, and capsules of it. Source: docs/lab.md."""

"""Preemption: victims for more important pods, and the room held for these."""

"""Preemption: victims of more important pods, and the room that is held for these."""

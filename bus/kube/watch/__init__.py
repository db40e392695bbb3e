"""Follows one kind of object. Lists it, watches it, lists it again, and publishes every observation in order."""

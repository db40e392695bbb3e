"""Follows one kind of object: list, watch, list again, and everything observed published in order."""

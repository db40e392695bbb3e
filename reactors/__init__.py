"""Reactors: decisions from the known state, each an event with its reason. ``catalogue`` lists the reactors."""

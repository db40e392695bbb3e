"""What shall be done: decisions over what is known, each an event with its reason. ``catalogue`` lists who decides."""

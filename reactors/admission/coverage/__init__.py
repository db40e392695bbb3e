"""Which objects an owner answers for, and the children that are counted below it."""

"""Coverage: the objects covered by an owner, and the children counted below it."""

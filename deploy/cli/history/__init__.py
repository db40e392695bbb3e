"""Commands about the history itself: read it, take it in, keep it, check it."""

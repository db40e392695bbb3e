"""Commands about the history itself: read, import, keep and check it."""

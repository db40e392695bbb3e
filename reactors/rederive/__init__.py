"""Derives the journals' decisions again from the history: reviews, and releases by queues."""

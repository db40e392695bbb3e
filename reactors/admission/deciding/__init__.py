"""The decision on a request, its rules and texts, and the way into a journal."""

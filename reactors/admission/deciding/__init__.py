"""The decision on a request, its rules and texts, and its entry in a journal."""

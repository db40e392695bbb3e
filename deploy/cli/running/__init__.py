"""Commands that run until they are ended, how such a process is, and how to pause it."""

"""The composition root: opens each adapter with its settings, and runs and ends the processes."""

"""The composition root: which adapter is opened with which setting, and how the processes run and end."""

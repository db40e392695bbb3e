"""What every reactor stands on: journals, and the one that may publish."""

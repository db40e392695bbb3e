"""Writes to the API server for training jobs under Bursar."""

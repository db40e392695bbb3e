"""Writes to the API server for training jobs that Bursar runs."""

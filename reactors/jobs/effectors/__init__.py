"""What is written to the API server when Bursar runs training jobs."""

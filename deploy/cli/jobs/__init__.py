"""``bursar jobs``: training jobs, their next steps and their hours."""

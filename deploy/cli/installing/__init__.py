"""Commands that install Bursar in a cluster, and show its settings."""

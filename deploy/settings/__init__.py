"""What may be set, where it is read from, and what it means. The only reader of the environment."""

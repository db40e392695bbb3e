"""The settings, their sources, and their meaning. The only reader of the environment."""

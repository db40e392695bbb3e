"""The scheduling cycle: passes over waiting pods, and the pods that they gave nodes."""

"""The scheduling cycle: passes over waiting pods, and the pods placed by them."""

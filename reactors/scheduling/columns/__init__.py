"""The cluster as columns of integers, one row for each node, with the pods on it."""

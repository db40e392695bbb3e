"""Kubernetes: the client (the only import of its library), the watch loop, what is a workload, and our own objects."""

#: The name under which Bursar owns fields of objects.
MANAGER = "bursar"

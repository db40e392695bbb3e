"""The Kubernetes client (the only import of its library), the watch loop, the workload kinds, and Bursar's own objects."""

#: Bursar's field manager name.
MANAGER = "bursar"

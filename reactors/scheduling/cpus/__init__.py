"""Which CPUs of a node a pod gets for itself."""

"""The CPUs of a node that a pod gets for itself."""

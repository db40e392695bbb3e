"""``bursar schedule`` and its benchmark: the node of a pod, with reasons."""

"""``bursar schedule`` and its benchmark: which node a pod gets, and why."""

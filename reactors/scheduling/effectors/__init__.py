"""What is done of a pass: pods are bound to their nodes, and who waits is told why."""

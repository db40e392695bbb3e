"""The steps of `bursar why`: queues, reactors, scheduling, pod lives, disruptions and restarts."""

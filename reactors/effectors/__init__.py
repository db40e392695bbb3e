"""Effects on the cluster, by verb: each has one right way, shared by all reactors."""

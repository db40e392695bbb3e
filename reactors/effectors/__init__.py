"""What is done to the cluster, by verb: each effect has one right way, shared by all reactors."""

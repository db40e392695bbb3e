"""The scheduling framework: the contract of plugins, and the run of a profile's plugins for one pod."""

"""The effects of a pass: binds of pods to their nodes, and the reasons on waiting pods."""

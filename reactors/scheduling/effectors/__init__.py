"""The effects of a pass: binds pods to their nodes, and tells waiting pods the reason."""

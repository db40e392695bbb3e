"""Reviews by kind, and the answer to each."""

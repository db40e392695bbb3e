"""The journals' decisions derived again from the history: what was reviewed, and what queues released."""

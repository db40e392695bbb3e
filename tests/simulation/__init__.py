"""A simulated cluster in simulated time: the product's own sources, webhook, reactors and ledger, without one real second.

Only the API server, its controllers and the notebook servers are played. Source of their behavior: docs/history.md and
what tests/cluster sees on a real control plane.
"""

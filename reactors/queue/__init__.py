"""Waiting instead of being refused: held workloads, their order, and their release."""

"""Giving back what a quota must not hold any longer: which pods have to go, one decision for each."""

NAME = "evictions"

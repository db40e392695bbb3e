"""Evictions from quotas over their limit: one decision for each pod to evict."""

NAME = "evictions"

"""Budgets of quotas: the use of each, its display in the quota's object, and notices about it."""

NAME = "budgets"

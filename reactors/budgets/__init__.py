"""Budgets of quotas: how far each is used up, what its quota's object shows, and who is told of it."""

NAME = "budgets"

"""Reservations: room on nodes that is held for pods of certain owners."""

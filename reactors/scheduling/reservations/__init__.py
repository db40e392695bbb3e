"""Reservations: room on nodes held for pods of certain owners."""

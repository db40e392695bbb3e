"""Gangs: pods that get nodes together or not at all."""

"""Inventory of cards: what clusters and nodes offer, and nodes on which more is charged.

Source: docs/devices.md.
"""

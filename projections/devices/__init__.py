"""Devices that are given out by claim, and cards that pods share: who holds which part since when.

Source: docs/devices.md.
"""

"""Devices allocated by claim, and cards shared by pods: the holder of each part over time.

Source: docs/devices.md.
"""

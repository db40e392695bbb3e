"""Plugins for volumes: claims, zones, exclusive access and limits of nodes."""

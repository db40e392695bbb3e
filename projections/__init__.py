"""Projections: folds over the history, and the tables that keep their rows.

A module here is named after the question it answers. ``engine`` holds the machinery (contract, runner, store, replay).
"""

"""What is known: folds over the history, and the tables in which their rows are kept.

A module here is named after the question it answers. ``engine`` holds the machinery (contract, runner, store, replay).
"""

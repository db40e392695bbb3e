"""Migrations of pods: a PodMigrationJob reserves room on another node, then moves its pod there."""

NAME = "migration"

"""Migrations of pods: a PodMigrationJob moves its pod to a node on which room is reserved first."""

NAME = "migration"

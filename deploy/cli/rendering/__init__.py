"""The form of answers: tables that fit a terminal, JSON, YAML and CSV, with foreign texts made inert."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"

"""The rows of all projections in memory, and the way to stored ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from projections.engine.changes import Columns, RowReader
from projections.engine.contract import Key, Projection

#: Rows of each projection in memory; a cache is emptied when it is full.
KEPT = 50_000


class Rows:
    """Rows by projection and key, None for a missing one. ``reader`` reads the ones outside of memory."""

    def __init__(self, projections: Iterable[Projection], reader: RowReader) -> None:
        self.reader = reader
        self._projections = {projection.name: projection for projection in projections}
        self._rows: dict[str, dict[Key, Any]] = {name: {} for name in self._projections}
        self._touched: dict[str, dict[Key, Any]] = {name: {} for name in self._projections}
        self._wanted: dict[str, dict[Key, None]] = {name: {} for name in self._projections}

    def want(self, projection: Projection, key: Key) -> None:
        """This row will be asked for: :meth:`fetch` reads it with others."""
        if key not in self._rows[projection.name]:
            self._wanted[projection.name][key] = None

    def fetch(self) -> None:
        """Read all wanted rows."""
        for name, wanted in self._wanted.items():
            if wanted:
                self._load(self._projections[name], list(wanted))
                wanted.clear()

    def get(self, projection: Projection, key: Key) -> Any:
        """The row of a projection; None where there is none."""
        rows = self._rows[projection.name]
        if key not in rows:
            self._load(projection, [key])
        return rows[key]

    def put(self, projection: Projection, key: Key, row: Any) -> None:
        """The row changed in this batch."""
        self._rows[projection.name][key] = self._touched[projection.name][key] = row

    def changes(self) -> dict[sa.Table, list[Columns]]:
        """The columns of all rows changed in this batch. The next batch begins: nothing is touched yet."""
        found = {}
        for name, touched in self._touched.items():
            if touched:
                projection = self._projections[name]
                found[projection.table] = [
                    projection.codec.columns(row) for row in touched.values()
                ]
                touched.clear()
        return found

    def settle(self) -> None:
        """Let go of full caches. Call when the changes are stored."""
        for rows in self._rows.values():
            if len(rows) > KEPT:
                rows.clear()

    def _load(self, projection: Projection, keys: list[Key]) -> None:
        rows = self._rows[projection.name]
        rows.update(dict.fromkeys(keys))
        for columns in self.reader.rows(projection.table, keys):
            rows[columns[: len(keys[0])]] = projection.codec.row(columns)

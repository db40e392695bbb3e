"""The contract of a projection: a name, a version, a table, and two pure functions.

``keys(fact, event)`` names the rows an event touches, ``fold(row, fact, event)`` gives the row after it. A fold is
*total* and *set-like*: an unknown or repeated event gives the same row (the identical object, so no row is
written), and the row depends on the set of folded events, never on their order. So any arrival order, any batch
size and any replay end in the same ledger.

Rows computed from several rows (a pod's held segments from the pod, its namespace, its node and its owners) are a
*derivation*: a pure function over rows, run again for possibly affected rows after a change
(:mod:`projections.pod_runs`).

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.vocabulary import Fact
from projections.engine.codec import Codec

#: Every table of the ledger is declared on this catalogue; the migrations are tested equal to it.
METADATA = sa.MetaData()

#: 64-bit integers under the one name valid in SQLite's STRICT tables.
Integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

Key = tuple[str, ...]


def row_table(
    name: str, *columns: sa.Column[Any] | sa.Index, is_clustered: bool = False
) -> sa.Table:
    """A table of rows: the columns given, and ``sequence``, the last event with an effect on the row.

    ``is_clustered``: SQLite keeps the rows in the order of their primary key, without a second copy of it.
    """
    return sa.Table(
        name,
        METADATA,
        *columns,
        sa.Column("sequence", Integer, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=not is_clustered,
    )


def partial_index(name: str, *columns: str, where: str) -> sa.Index:
    """An index of the rows under a condition.

    Its options for PostgreSQL are set when a table is made there: to declare them here would import that database's
    dialect with every question to a SQLite ledger.
    """
    return sa.Index(name, *columns, sqlite_where=sa.text(where), info={"where": where})


@sa.event.listens_for(METADATA, "before_create")
def _set_conditions(metadata: sa.MetaData, connection: sa.Connection, **_: Any) -> None:
    if connection.dialect.name == "postgresql":
        for table in metadata.tables.values():
            for index in table.indexes:
                if "where" in index.info:
                    index.dialect_options["postgresql"]["where"] = sa.text(index.info["where"])


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """One question answered by rows of one table.

    ``version`` grows when the rows of the same history would differ: the table is then built anew from the archive.
    """

    name: str
    version: int
    table: sa.Table
    facts: tuple[type[Fact], ...]
    keys: Callable[[Any, Any], Iterable[Key]]
    fold: Callable[[Any, Any, Any], Any]
    codec: Codec[Any]
    #: Splits a fact about several rows into one part for each row; ``keys`` and ``fold`` take parts then.
    parts: Callable[[Any], Iterable[Any]] | None = None

    def touched(self, fact: Fact, event: Event) -> list[tuple[Key, Any]]:
        """Every row in the fact by key, with its part of the fact."""
        parts = (fact,) if self.parts is None else self.parts(fact)
        return [(key, part) for part in parts for key in self.keys(part, event)]

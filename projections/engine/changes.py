"""What passes between folds and a database: the reader of stored rows, and the changes of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.errors import BursarError, UnknownEventTypeError, UnsupportedVersionError
from projections.engine.contract import Key
from projections.engine.sums import Restatement

#: The columns of a row, in the order of its table.
Columns = tuple[Any, ...]


class RowReader(Protocol):
    """Reads the rows that are stored and not in memory."""

    def rows(self, table: sa.Table, keys: Sequence[Key]) -> list[Columns]:
        """The rows of ``table`` whose primary keys are, or begin with, these, those that there are, in any order."""
        ...

    def select(
        self,
        query: sa.Select[Any] | sa.CompoundSelect[Any],
        values: Mapping[str, Any] | None = None,
    ) -> list[Columns]:
        """The rows of a query, with ``values`` for its parameters."""
        ...


class Parked(msgspec.Struct, frozen=True):
    """An event that could not be decoded or folded, and why.

    ``is_newer``: a newer version of what this program knows, so that it must stop. ``is_unknown``: of a type that it does not
    know, as a newer program writes beside it or wrote before a roll-back: nothing that this one knows is less right without it.
    """

    sequence: int
    type: str
    key: str
    reason: str
    is_newer: bool = False
    is_unknown: bool = False


class Changes(msgspec.Struct):
    """The changes of a batch: whole rows by table, differences of sums, and parked events."""

    #: (table, column, values): rows that are written anew or not at all
    deletes: list[tuple[sa.Table, str, list[str]]] = []
    upserts: dict[sa.Table, list[Columns]] = {}
    restatements: list[Restatement] = []
    parked: list[Parked] = []


def refused(event: Event, error: Exception) -> Parked:
    """``event`` as parked for ``error``."""
    reason = str(error) if isinstance(error, BursarError) else f"{type(error).__name__}: {error}"
    is_newer, is_unknown = (
        isinstance(error, kind) for kind in (UnsupportedVersionError, UnknownEventTypeError)
    )
    return Parked(event.sequence, event.type, event.key, reason, is_newer, is_unknown)

"""The interface between folds and a database: the reader of stored rows, and the changes of a batch."""

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
    """Reads stored rows missing in memory."""

    def rows(self, table: sa.Table, keys: Sequence[Key]) -> list[Columns]:
        """The existing rows of ``table`` with these primary keys, or with these as prefixes, in any order."""
        ...

    def select(
        self,
        query: sa.Select[Any] | sa.CompoundSelect[Any],
        values: Mapping[str, Any] | None = None,
    ) -> list[Columns]:
        """The rows of a query, with ``values`` for its parameters."""
        ...


class Parked(msgspec.Struct, frozen=True):
    """An event without decoding or fold, and the reason.

    ``is_newer``: a newer version of a known type, so this program must stop. ``is_unknown``: of an unknown type, as
    a newer program writes beside it or wrote before a roll-back: the known parts stay right without it.
    """

    sequence: int
    type: str
    key: str
    reason: str
    is_newer: bool = False
    is_unknown: bool = False


class Changes(msgspec.Struct):
    """The changes of a batch: whole rows by table, differences of sums, and parked events."""

    #: (table, column, values): rows written anew or not at all
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

"""What the archive holds of the journals, and of what their decisions were read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events import VOCABULARY
from bus.events.admissions import AdmissionDecided, AdmissionsGrouped, entries
from bus.events.vocabulary import Fact, read
from projections.engine.store import event_of_row
from projections.engine.tables import events

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]

GROUPED = AdmissionsGrouped.wire_type

#: Events read at a time.
PART = 5_000


def archived(
    select: Select,
    cluster: str,
    types: Iterable[str] | None,
    *,
    key: str | None = None,
    after: int = 0,
    until: int | None = None,
    apart: bool = True,
) -> Iterator[list[Event]]:
    """The events of these types, of one ``key`` or all, after one sequence and up to another, in order, some thousand at a time.

    ``types`` None: all events, also those of types that nobody knows, and malformed ones.
    Decisions that were stored together come one by one, all with one sequence; as they were stored if not ``apart``, which is
    what readers of the history take.
    """
    columns = events.c
    chosen: list[sa.ColumnElement[bool]] = [columns.cluster == cluster]
    if types is not None:
        asked = set(types)
        asked |= {GROUPED} if AdmissionDecided.wire_type in asked else set()
        chosen += [columns.type.in_(sorted(asked)), columns.defect == ""]
    if key is not None:
        chosen.append(columns.key == key)
    if until is not None:
        chosen.append(columns.sequence <= until)
    while True:
        query = sa.select(events).where(*chosen, columns.sequence > after)
        rows = select(query.order_by(columns.sequence).limit(PART))
        if rows:
            part = [event_of_row(row) for row in rows]
            yield [one for event in part for one in _apart(event)] if apart else part
            after = rows[-1][0]
        if len(rows) < PART:
            return


def facts(parts: Iterable[list[Event]]) -> Iterator[tuple[Event, Fact]]:
    """What archived events say. One that cannot be read is parked, and says nothing. Raises UnsupportedVersionError."""
    for part in parts:
        for event in part:
            try:
                fact = read(event, VOCABULARY)
            except EnvelopeError:
                continue
            yield event, fact


def _apart(event: Event) -> tuple[Event, ...]:
    try:
        return entries(event)
    except EnvelopeError:
        # The ledger parks it, and counts it.
        return ()

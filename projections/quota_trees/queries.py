"""Queries on the archive: the journals, and the input events of their decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events import VOCABULARY
from bus.events.admissions import AdmissionDecided, AdmissionsGrouped, entries
from bus.events.vocabulary import Fact, read
from projections.engine.segments.reading import Select as Select
from projections.engine.segments.reading import Wanted, history

GROUPED = AdmissionsGrouped.wire_type


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

    ``types`` None: all events, unknown types and malformed ones included. Decisions that were stored together come
    one by one, all with one sequence; as they were stored if not ``apart``, the form for readers of the history.
    """
    asked = None if types is None else set(types)
    if asked is not None and AdmissionDecided.wire_type in asked:
        asked.add(GROUPED)
    wanted = Wanted(
        cluster, None if asked is None else frozenset(asked), None if key is None else frozenset({key}),
        is_readable=asked is not None,
    )  # fmt: skip
    for part in history(select, wanted, after=after, until=until):
        yield [one for event in part for one in _apart(event)] if apart else part


def facts(parts: Iterable[list[Event]]) -> Iterator[tuple[Event, Fact]]:
    """The facts in archived events. An unreadable one is parked, and gives none. Raises UnsupportedVersionError."""
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

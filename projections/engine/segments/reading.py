"""The history as one: trimmed events are read from segments, the rest from the table.

Every reader of events goes through here. A ledger can be trimmed between two reads, since each read of a question
is a transaction of its own: so the table's rows count only if, checked afterwards, none of them was trimmed. A
segment damaged or missing raises an error with its name, and no event is passed over.

Source: ``docs/history.md`` (segments).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.errors import DamagedSegmentError
from projections.engine.segments.form import (
    Content,
    Row,
    SegmentHead,
    event_of,
    parted,
    read_head,
    unpack,
)
from projections.engine.store import chain_of_row, event_of_row
from projections.engine.tables import checkpoints, events, segments

if TYPE_CHECKING:
    from projections.engine.segments.places import SegmentPlace

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]

#: Events read at a time.
PART = 5_000


#: The last read segment.
_CACHE: dict[tuple[str, bytes], Content] = {}


def file_name(first: int) -> str:
    """The name of the segment from this event on."""
    return f"segment-{first:012d}.zst"


class StoredSegment:
    """A segment as recorded in the ledger."""

    def __init__(self, row: tuple[Any, ...], file: str | None) -> None:
        last, first, written, sha256, head, trimmed = row
        self.last, self.first, self.written = int(last), int(first), str(written)
        self.sha256, self.head_bytes, self.trimmed = bytes(sha256), bytes(head), trimmed == 1
        #: Whether the ledger has all its description.
        self.is_noted = trimmed in (0, 1)
        self._file = file

    @cached_property
    def _place(self) -> SegmentPlace:
        from projections.engine.segments.places import (
            place_of,  # Not asked for where nobody sealed.
        )

        return place_of(self.written, self._file)

    @property
    def where(self) -> str:
        """The file's address for people."""
        return self._place.where(file_name(self.first))

    @cached_property
    def head(self) -> SegmentHead:
        """Its head. Raises DamagedSegmentError."""
        return read_head(self.head_bytes)

    @property
    def is_there(self) -> bool:
        """Whether its file is there, whatever is in it. Raises SegmentPlaceError."""
        return self._place.has(file_name(self.first))

    @property
    def is_place_here(self) -> bool:
        """Whether this machine has its place. Raises SegmentPlaceError."""
        return self._place.exists()

    @property
    def is_away(self) -> bool:
        """Whether it lies where this machine has no such place, and nothing needs it here: the table has its events.

        Raises SegmentPlaceError.
        """
        return not self.trimmed and not self.is_place_here

    def bytes(self) -> bytes:
        """The file, proven to be the written one. Raises DamagedSegmentError and SegmentPlaceError."""
        found = self._place.get(file_name(self.first))
        if found is None:
            raise DamagedSegmentError("a segment of the history is missing", path=self.where)
        if sha256(found).digest() != self.sha256:
            raise DamagedSegmentError("a segment is not the file that was written", path=self.where)
        return found

    def content(self) -> Content:
        """Its events. Raises DamagedSegmentError and SegmentPlaceError."""
        key = self.where, self.sha256
        if (found := _CACHE.get(key)) is None:
            head, packed = parted(self.bytes())
            rows = unpack(packed, self.last - self.first + 1)
            if [row[0] for row in rows] != list(range(self.first, self.last + 1)):
                raise DamagedSegmentError("a segment holds other events than it says", path=key[0])
            found = Content(rows, head.before)
            # A question reads one after the other, a recovery one many times over.
            _CACHE.clear()
            _CACHE[key] = found
        return found


class Wanted(msgspec.Struct, frozen=True):
    """A selection of events: of a cluster, of types, of keys, of an id, None = any; and whether readable ones only."""

    cluster: str | None = None
    types: frozenset[str] | None = None
    keys: frozenset[str] | None = None
    id: str | None = None
    is_readable: bool = False

    def clauses(self) -> list[sa.ColumnElement[bool]]:
        """The same in SQL."""
        columns = events.c
        found = []
        if self.cluster is not None:
            found.append(columns.cluster == self.cluster)
        if self.types is not None:
            found.append(columns.type.in_(sorted(self.types)))
        if self.keys is not None:
            found.append(columns.key.in_(sorted(self.keys)))
        if self.id is not None:
            found.append(columns.id == self.id)
        if self.is_readable:
            found.append(columns.defect == "")
        return found

    def may_be_in(self, head: SegmentHead) -> bool:
        """Whether a segment may hold any."""
        has_type = any(
            (self.cluster in (None, cluster)) and (self.types is None or type in self.types)
            for cluster, type, _ in head.counts
        )
        return has_type and (self.keys is None or any(map(head.has_key, self.keys)))

    def has(self, row: Row) -> bool:
        """Whether a packed event is one."""
        _, cluster, type, key, id, _, _, _, defect, _ = row
        return (
            (self.cluster is None or cluster == self.cluster)
            and (self.types is None or type in self.types)
            and (self.keys is None or key in self.keys)
            and (self.id is None or id == self.id)
            and not (self.is_readable and defect)
        )


ANY = Wanted()


def sealed(select: Select, *more: sa.ColumnElement[bool]) -> list[StoredSegment]:
    """The segments in the ledger, in order."""
    rows = select(sa.select(segments).where(*more).order_by(segments.c.sequence))
    if not rows:
        return []
    relative = any(not row[2].startswith("/") for row in rows)
    from projections.engine.segments.places import LEDGER_FILE

    file = select(LEDGER_FILE)[0][0] if relative else None
    return [StoredSegment(tuple(row), file) for row in rows]


def sealed_until(select: Select) -> int:
    """The last event in a segment; 0 without one."""
    return int(select(sa.select(sa.func.max(segments.c.sequence)))[0][0] or 0)


def trimmed_until(select: Select) -> int:
    """The last event in segments only; 0 = the table has all."""
    return int(select(sa.select(sa.func.max(segments.c.sequence)).where(segments.c.trimmed == 1))[0][0] or 0)  # fmt: skip


def trimmed(select: Select, after: int = 0, until: int | None = None) -> list[StoredSegment]:
    """The segments of events in (after, until] missing in the table. Raises DamagedSegmentError."""
    columns = segments.c
    more = [columns.trimmed == 1, columns.sequence > after]
    found = sealed(select, *more, *([] if until is None else [columns.first <= until]))
    for segment in found:
        if segment.first > after + 1:
            raise DamagedSegmentError(
                "a segment of the history is not in the ledger: see `bursar verify`",
                event=after + 1,
            )
        after = segment.last
    return found


def history(
    select: Select,
    wanted: Wanted = ANY,
    *,
    after: int = 0,
    until: int | None = None,
    part: int = PART,
) -> Iterator[list[Event]]:
    """The wanted events in (after, until], in order, some thousand at a time and none of the lists empty."""
    last = max((int(row[0]) for row in select(sa.select(checkpoints.c.sequence))), default=0)
    end = last if until is None else min(until, last)
    clauses = wanted.clauses()
    while after < end:
        for segment in trimmed(select, after, end):
            if wanted.may_be_in(segment.head):
                yield from _parts(segment, wanted, after, end, part)
            after = segment.last
        chosen = (*clauses, events.c.sequence > after, events.c.sequence <= end)
        rows = select(sa.select(events).where(*chosen).order_by(events.c.sequence).limit(part))
        if trimmed_until(select) > after:
            # Trimmed meanwhile: the rows may lack some.
            continue
        if rows:
            yield [event_of_row(row) for row in rows]
            after = rows[-1][0]
        if len(rows) < part:
            return


def _parts(segment: StoredSegment, wanted: Wanted, after: int, until: int, part: int) -> Iterator[list[Event]]:  # fmt: skip
    found: list[Event] = []
    for event in packed(segment, wanted, after, until):
        found.append(event)
        if len(found) == part:
            yield found
            found = []
    if found:
        yield found


def packed(segment: StoredSegment, wanted: Wanted = ANY, after: int = 0, until: int | None = None) -> Iterable[Event]:  # fmt: skip
    """The wanted events of a segment in (after, until], in order."""
    for row in segment.content().rows:
        if row[0] > after and (until is None or row[0] <= until) and wanted.has(row):
            yield event_of(row)


def newest(select: Select, wanted: Wanted, most: int) -> list[Event]:
    """The newest ``most`` wanted events, in order."""
    query = sa.select(events).where(*wanted.clauses()).order_by(events.c.sequence.desc())
    while True:
        line = trimmed_until(select)
        rows = select(query.where(events.c.sequence > line).limit(most))
        found = [event_of_row(row) for row in reversed(rows)]
        if trimmed_until(select) == line:
            break
    for segment in reversed(trimmed(select, until=line)):
        if len(found) >= most:
            break
        if wanted.may_be_in(segment.head):
            found = [*packed(segment, wanted), *found][-most:]
    return found


def with_links(select: Select, first: int, count: int) -> list[tuple[Event, bytes]]:
    """Up to ``count`` events from sequence ``first`` on, in order, each with the chain's value at it; segments one by one."""
    for segment in trimmed(select, first - 1, first):
        content, place = segment.content(), first - segment.first
        return list(zip(content.events(first - 1, first + count - 1), content.links[place:], strict=False))  # fmt: skip
    query = sa.select(events).where(events.c.sequence >= first).order_by(events.c.sequence)
    rows = select(query.limit(count))
    if trimmed_until(select) >= first:
        # Trimmed meanwhile: the rows may lack some.
        return with_links(select, first, count)
    return [(event_of_row(row), chain_of_row(row)) for row in rows]


def at(select: Select, sequence: int) -> tuple[Event, bytes] | None:
    """One event, and the chain's value at it; None where there is none."""
    found = with_links(select, sequence, 1)
    return found[0] if found and found[0][0].sequence == sequence else None


def event_at(select: Select, sequence: int) -> Event | None:
    """One event; None where there is none."""
    found = at(select, sequence)
    return None if found is None else found[0]


def chain_at(select: Select, sequence: int) -> bytes | None:
    """The chain's value at one event; None where there is none."""
    found = at(select, sequence)
    return None if found is None else found[1]


def counts(
    select: Select,
    types: Collection[str] | None = None,
    *,
    after: int = 0,
    until: int | None = None,
) -> dict[tuple[str, str], int]:
    """How many events of each (cluster, type) there are in (after, until]."""
    found: dict[tuple[str, str], int] = {}
    line = after
    for segment in trimmed(select, after, until):
        is_whole = segment.first > after and (until is None or segment.last <= until)
        if is_whole:
            amounts: Iterable[tuple[str, str, int]] = segment.head.counts
        else:
            amounts = ((e.cluster, e.type, 1) for e in packed(segment, ANY, after, until))
        for cluster, type, count in amounts:
            if types is None or type in types:
                found[cluster, type] = found.get((cluster, type), 0) + count
        line = segment.last
    columns = events.c
    chosen = [columns.sequence > line]
    chosen += [] if until is None else [columns.sequence <= until]
    chosen += [] if types is None else [columns.type.in_(sorted(types))]
    query = sa.select(columns.cluster, columns.type, sa.func.count()).where(*chosen)
    rows = select(query.group_by(columns.cluster, columns.type))
    if line < trimmed_until(select) and (until is None or line < until):
        return counts(select, types, after=after, until=until)
    for cluster, type, count in rows:
        found[cluster, type] = found.get((cluster, type), 0) + count
    return found


def clusters(select: Select, types: Collection[str] | None = None) -> set[str]:
    """The clusters with events, or with events of these types."""
    names = sa.select(events.c.cluster).distinct()
    if types is not None:
        names = names.where(events.c.type.in_(sorted(types)))
    # The table first: events trimmed meanwhile are counted twice.
    found = {cluster for (cluster,) in select(names)}
    for segment in trimmed(select):
        found |= {cluster for cluster, type, _ in segment.head.counts if types is None or type in types}  # fmt: skip
    return found


def selecting(connection: sa.Connection) -> Select:
    """Queries over one connection."""

    def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(query)]

    return select

"""Checks the existence and content of every segment. Part of a verification: names each faulty one.

A trimmed segment is read whole, and the chain goes through its events. Of any other the file, its head and the
signature (over the packed events) are checked, and the chain at both ends is the table's; if the folders of all
segments are on another machine, the ledger's own record of the head. If the folder of any segment is here, a
missing one is a finding: its path in the ledger may be forged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import sqlalchemy as sa

from bus.envelope import GENESIS, Event
from bus.errors import DamagedSegmentError, LedgerError, SegmentPlaceError
from projections.engine.segments.form import Content
from projections.engine.segments.reading import Select, StoredSegment, sealed
from projections.engine.segments.sealing import checked, checked_head, noted_head
from projections.engine.store import chain_of_row, event_of_row
from projections.engine.tables import events

#: (what, sequence, reason)
Tell = Callable[[str, int, str], None]


class Walk:
    """The position in the chain: after the event ``sequence`` with the chain value ``chain``."""

    def __init__(
        self,
        select: Select,
        keys: Collection[bytes],
        witnesses: Mapping[int, set[bytes]],
        tell: Tell,
        progress: Callable[[int], None],
    ) -> None:
        self._select = select
        self._keys = keys
        self._witnesses = witnesses
        self._tell = tell
        self._progress = progress
        #: The last event of the trimmed segments, the events there, the chain's value, and the newest observation.
        self.sequence = self.count = self.observed_us = 0
        self.chain = GENESIS
        self.last: Event | None = None

    def run(self) -> None:
        """Follow the chain to the end of the trimmed part, and check all segments."""
        end, is_table = 0, False
        found = sealed(self._select)
        is_here = any(map(_is_here, found))
        for segment in found:
            if segment.first != end + 1 or segment.last < segment.first:
                self._tell("segment", end + 1, "the ledger names no segment that begins here")
            if segment.trimmed and is_table:
                self._tell("segment", segment.first, f"{segment.where}: trimmed, and the one before it is not")  # fmt: skip
            if not segment.is_noted:
                self._tell("segment", segment.first, f"{segment.where}: neither trimmed nor not")
            is_table = is_table or not segment.trimmed
            end = segment.last
            try:
                if segment.trimmed:
                    self._trimmed(segment)
                else:
                    self._beside_table(segment, is_here)
            except (LedgerError, SegmentPlaceError) as error:
                self._tell("segment", segment.first, str(error))
                self._passed(segment)

    def _trimmed(self, segment: StoredSegment) -> None:
        found = checked(segment, self._keys)
        if found.head.before != self.chain:
            self._tell("chain", segment.first, f"{segment.where}: it does not follow what is before it")  # fmt: skip
        content = found.content
        for sequence in self._witnesses.keys() & range(segment.first, segment.last + 1):
            if self._witnesses[sequence] != {content.links[sequence - segment.first]}:
                self._tell("head", sequence, "a signed head has another chain value here")
        self._left(segment, content)
        self.last = content.events(segment.last - 1)[0]
        self._move(segment, found.head.chain, found.head.newest_us)

    def _left(self, segment: StoredSegment, content: Content) -> None:
        """Its rest in the table: parked events, as they were."""
        column = events.c.sequence
        left = sa.select(events).where(column >= segment.first, column <= segment.last)
        rows = self._select(left)
        if len(rows) == len(content.rows):
            self._tell(
                "segment", segment.first, f"{segment.where}: trimmed, and the table has it all"
            )
        for row in rows:
            place = row[0] - segment.first
            if (event_of_row(row), chain_of_row(row)) != (content.events(row[0] - 1, row[0])[0], content.links[place]):  # fmt: skip
                self._tell("chain", row[0], "the event is not the one that was sealed")

    def _beside_table(self, segment: StoredSegment, is_other_here: bool) -> None:
        is_away = segment.is_away
        if is_away and is_other_here:
            raise DamagedSegmentError("a segment's folder is not here, and that of others is", path=segment.where)  # fmt: skip
        head = noted_head(segment, self._keys) if is_away else checked_head(segment, self._keys)[0]
        column = events.c.sequence
        ends = {head.first - 1: head.before, head.last: head.chain}
        rows = self._select(sa.select(column, events.c.chain).where(column.in_(ends)))
        if any(bytes(chain) != ends[sequence] for sequence, chain in rows):
            raise DamagedSegmentError("a segment is not what the archive holds", path=segment.where)

    def _passed(self, segment: StoredSegment) -> None:
        """Go on after an unreadable segment, by the ledger's record of its head."""
        if segment.trimmed:
            try:
                self._move(segment, segment.head.chain, segment.head.newest_us)
            except DamagedSegmentError:
                self._move(segment, b"", 0)
            self.last = None

    def _move(self, segment: StoredSegment, chain: bytes, newest_us: int) -> None:
        self.sequence, self.chain = segment.last, chain
        self.count += segment.last - segment.first + 1
        self.observed_us = max(self.observed_us, newest_us)
        self._progress(self.count)


def _is_here(segment: StoredSegment) -> bool:
    """Whether this machine has its folder; an inaccessible one is a finding of its own."""
    with suppress(LedgerError, SegmentPlaceError):
        return segment.is_place_here
    return False

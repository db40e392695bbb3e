"""Writes segments behind the ledger, and trims the archive's table to the events outside of verified segments.

A segment is sealed in this order: the events are read from the table and their chain is computed; the file is
written, on disk, and read back; then one transaction notes it. Killed in between, the same file is written again.
The table is trimmed in this order: the oldest segment of sufficient age is read and checked whole (file, signature,
chain from end to end, the table's chain at its end), then one transaction deletes its events and notes that. So
each event is in the table or in a segment read just before, at every moment. Parked events stay in the table, as
their raw bytes are read by name.

Age is by the history's own clock: the median time of a segment's last events against that of the ledger's last
events. A single fast clock changes neither. The newest time of all would stop the trimming as long as the clock is
ahead.

Source: ``docs/history.md`` (segments).
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

import msgspec
import sqlalchemy as sa

from bus.crashpoints import crashpoint
from bus.envelope import GENESIS, Event
from bus.errors import DamagedSegmentError, LedgerError
from bus.object_store import SCHEME
from projections.engine.heads import Signer
from projections.engine.segments.form import (
    Content,
    SegmentHead,
    encode_head,
    head_of,
    joined,
    pack,
    parted,
    size_of,
    unpack,
)
from projections.engine.segments.places import LEDGER_FILE, place_of, written
from projections.engine.segments.reading import StoredSegment, file_name, sealed, with_links
from projections.engine.segments.signing import sign_segment_head, verify_segment_head
from projections.engine.store import Store
from projections.engine.tables import checkpoints, events, heads, parked, segments
from projections.engine.writers import writer

#: Bytes of the events of one segment at most; one event may have more.
MOST_BYTES = 32 * 2**20
#: Events read at a time.
PART = 2_000
#: Number of last events for their median time.
LAST = 101


class Sealer:
    """Seals and trims the ledger of ``store``. One process at a time: the writer of the ledger."""

    def __init__(self, store: Store, signer: Signer, folder: Path | str, every: int) -> None:
        self._store = store
        self._signer = signer
        """``folder``: a folder, or what is written of one in a ledger, or the address of a bucket."""
        text = written(folder, store.engine)
        self._written = text
        self._every = every
        is_beside = not text.startswith(("/", SCHEME))
        self._ledger_file = store.select(LEDGER_FILE)[0][0] if is_beside else None
        self._place = place_of(text, self._ledger_file)

    def seal(self) -> SegmentHead | None:
        """Seal the next segment; None where not enough events came since the last.

        Raises SegmentPlaceError where it cannot be written, and LedgerError where the archive is damaged or the place holds
        another history.
        """
        before, until = self._end()
        first = before.last + 1 if before is not None else 1
        if until - first + 1 < self._every:
            return None
        link = before.head.chain if before is not None else GENESIS
        if (left := self._left(first, link)) is not None:
            head, file = left
        else:
            head, file = self._made(first, link)
            self._write(head, file)
        with self._store.engine.begin() as connection:
            row = head.last, head.first, self._written, sha256(file).digest(), encode_head(head), 0
            writer(connection.dialect.name).insert(connection, segments, [row])
            crashpoint("seal.before_commit")
        crashpoint("seal.after_commit")
        return head

    def trim(self, keep_us: int) -> SegmentHead | None:
        """Take the oldest segment's events out of the table, where its end is older than ``keep_us``; None where it is not.

        Raises DamagedSegmentError, with nothing changed, for a wrong segment, and SegmentPlaceError.
        """
        untrimmed = sa.select(sa.func.min(segments.c.sequence)).where(segments.c.trimmed == 0)
        found = sealed(self._store.select, segments.c.sequence == untrimmed.scalar_subquery())
        if not found or self._ended_us(found[0].first, found[0].last) + keep_us > self._ended_us(found[0].first):  # fmt: skip
            return None
        oldest = found[0]
        self.prove(oldest)
        head = oldest.head
        crashpoint("trim.before_delete")
        column = events.c.sequence
        with self._store.engine.begin() as connection:
            gone = events.delete().where(column >= head.first, column <= head.last)
            connection.execute(gone.where(column.not_in(sa.select(parked.c.sequence))))
            noted = segments.update().where(segments.c.sequence == head.last)
            connection.execute(noted.values(trimmed=1))
            crashpoint("trim.before_commit")
        crashpoint("trim.after_commit")
        return head

    def holding(self, sequence: int) -> StoredSegment | None:
        """The segment with this event; None where it is not sealed."""
        chosen = segments.c.first <= sequence, segments.c.sequence >= sequence
        found = sealed(self._store.select, *chosen)
        return found[0] if found else None

    def prove(self, segment: StoredSegment) -> None:
        """Read the segment whole. Raises DamagedSegmentError for a wrong one, and SegmentPlaceError."""
        head = checked(segment, self._keys()).head
        if not segment.trimmed and self._chain(head.last) != head.chain:
            raise DamagedSegmentError("a segment is not what the archive holds", path=segment.where)

    def _ended_us(self, first: int, last: int | None = None) -> int:
        """When the events from ``first`` to ``last`` ended, or to the end; 0 where the table has none of them."""
        column = events.c.sequence
        chosen = [column >= first, *([] if last is None else [column <= last])]
        query = sa.select(events.c.time_us).where(*chosen).order_by(column.desc()).limit(LAST)
        times = sorted(row[0] for row in self._store.select(query))
        return int(times[len(times) // 2]) if times else 0

    def _end(self) -> tuple[StoredSegment | None, int]:
        """The last segment, and the last event."""
        newest = sa.select(sa.func.max(segments.c.sequence)).scalar_subquery()
        found = sealed(self._store.select, segments.c.sequence == newest)
        moved = self._store.select(sa.select(checkpoints.c.sequence))
        return (found[0] if found else None), (moved[0][0] if moved else 0)

    def _left(self, first: int, link: bytes) -> tuple[SegmentHead, bytes] | None:
        """The segment starting here in the place already, left by a killed process or another ledger of this
        history, with its file: sound, signed by us, and equal to the archive, whatever its length. None without
        one.
        """
        file = self._place.get(file_name(first))
        head = None if file is None else _head_in(file)
        if file is None or head is None or (head.first, head.before) != (first, link):
            return None
        if self._chain(head.last) != head.chain:
            return None
        row = head.last, first, self._written, sha256(file).digest(), encode_head(head), 0
        try:
            return checked(StoredSegment(row, self._ledger_file), self._keys()).head, file
        except DamagedSegmentError:
            return None

    def _made(self, first: int, link: bytes) -> tuple[SegmentHead, bytes]:
        """The next segment from the archive, signed, and its file."""
        packed = pack(part := self._read(first))
        head = head_of(part, link, sha256(packed).digest())
        if self._chain(head.last) != head.chain:
            raise LedgerError("the archive is not what its chain says: see `bursar verify`", after=first)  # fmt: skip
        head = sign_segment_head(head, self._signer)
        return head, joined(head, packed)

    def _read(self, first: int) -> list[Event]:
        part: list[Event] = []
        size = 0
        while len(part) < self._every:
            wanted = min(PART, self._every - len(part))
            found = [
                event for event, _ in with_links(self._store.select, first + len(part), wanted)
            ]
            if [event.sequence for event in found] != [*range(first + len(part), first + len(part) + wanted)]:  # fmt: skip
                raise LedgerError("the archive has a gap: see `bursar verify`", after=first + len(part) - 1)  # fmt: skip
            for event in found:
                size += size_of(event)
                if part and size > MOST_BYTES:
                    return part
                part.append(event)
        return part

    def _chain(self, sequence: int) -> bytes:
        found = self._store.select(sa.select(events.c.chain).where(events.c.sequence == sequence))
        return bytes(found[0][0]) if found else b""

    def _write(self, head: SegmentHead, file: bytes) -> None:
        name = file_name(head.first)
        there = self._place.get(name)
        found = None if there is None else _head_in(there)
        if found is not None and found.chain != head.chain:
            raise LedgerError(
                "the place of segments holds another history, or segments that another key signed:"
                " name another with history.folder",
                path=self._place.where(name),
            )
        crashpoint("seal.before_file")
        if there != file:
            self._place.put(name, file)
        crashpoint("seal.after_file")
        if self._place.get(name) != file:
            raise DamagedSegmentError("a segment reads otherwise than it was written", path=self._place.where(name))  # fmt: skip

    def _keys(self) -> Collection[bytes]:
        first = sa.select(heads.c.public_key).order_by(heads.c.sequence).limit(1)
        return {self._signer.public_key, *(bytes(row[0]) for row in self._store.select(first))}


def _head_in(file: bytes) -> SegmentHead | None:
    """The head of a file; None where it cannot be read: a damaged one is written again."""
    try:
        return parted(file)[0]
    except DamagedSegmentError:
        return None


class Checked(msgspec.Struct, frozen=True):
    """A checked segment."""

    head: SegmentHead
    content: Content


def checked_head(segment: StoredSegment, keys: Collection[bytes]) -> tuple[SegmentHead, bytes]:
    """The head and packed events of a segment with an existing, unchanged file signed by one of ``keys``.

    Raises DamagedSegmentError with the reason, and SegmentPlaceError.
    """
    head, packed = parted(segment.bytes())
    _require(
        encode_head(head) == segment.head_bytes, segment, "its head is another than the ledger's"
    )
    noted_head(segment, keys)
    _require(sha256(packed).digest() == head.content, segment, "its events are not those of its head")  # fmt: skip
    return head, packed


def noted_head(segment: StoredSegment, keys: Collection[bytes]) -> SegmentHead:
    """The head as the ledger has it, signed by one of ``keys``; the file is not looked at. Raises DamagedSegmentError."""
    head = segment.head
    ends = (head.first, head.last)
    _require(ends == (segment.first, segment.last), segment, "it holds other events than the ledger says")  # fmt: skip
    _require(verify_segment_head(head, keys), segment, "its head is not signed by the key that signs the heads")  # fmt: skip
    return head


def _require(is_right: bool, segment: StoredSegment, reason: str) -> None:
    if not is_right:
        raise DamagedSegmentError(f"a segment is damaged: {reason}", path=segment.where)


def checked(segment: StoredSegment, keys: Collection[bytes]) -> Checked:
    """The segment, read whole: as :func:`checked_head`, and its events have the chain and the figures of its head."""
    head, packed = checked_head(segment, keys)
    try:
        content = Content(unpack(packed, head.last - head.first + 1), head.before)
    except DamagedSegmentError as error:
        raise DamagedSegmentError(f"a segment is damaged: {error}", path=segment.where) from None
    found = content.events()
    if [event.sequence for event in found] != list(range(head.first, head.last + 1)):
        raise DamagedSegmentError("a segment is damaged: its events are not in order", path=segment.where)  # fmt: skip
    computed = head_of(found, head.before, head.content)
    unsigned = msgspec.structs.replace(head, public_key=b"", signature=b"")
    if computed != unsigned:
        raise DamagedSegmentError("a segment is damaged: its events are not what its head says", path=segment.where)  # fmt: skip
    return Checked(head, content)

"""The form of a segment: consecutive events, packed, with an identifying signed head.

The file is two frames of Zstandard: a skippable one with the head as JSON, and one with the events, so ``zstd -d``
unpacks it. The events are MessagePack, every attribute and the body byte for byte. Their chain goes on from the
segment before it. The head holds the chain's value before and at the end, the digest of the packed events, and an
index to find events without unpacking them: their number by cluster and type, the times of clock ticks, and three
bytes of the digest of each key.

Source: RFC 8878 (skippable frames); ``docs/history.md``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from bus.envelope import Event, chain
from bus.errors import DamagedSegmentError
from bus.events.clock import ClockTicked

FORMAT = 1
#: More bytes than a file has; a larger one is none of ours.
LARGEST = 2**30
#: More bytes than the events of one file have, packed as they are: so many for the file, and so many for each event of it.
MOST_BYTES = 72 * 2**20
MOST_EVENT_BYTES = 2 * 2**10
#: More bytes than a head has.
LARGEST_HEAD = 2**24
#: Bytes of the digest of each key. Of 20,000 keys a thousandth finds a missing one.
KEY_BYTES = 3

_SKIPPABLE = (0x184D2A50).to_bytes(4, "little")
_CONTEXT = b"bursar segment 1\n"

#: Bytes of the length of MessagePack's arrays, by their first byte.
_LENGTHS = {0xDC: 2, 0xDD: 4}

Row = tuple[int, str, str, str, str, str, int, int, str, bytes]


class Ticks(msgspec.Struct, frozen=True):
    """The ticks of the clock in a segment: how many, the sequences of the first and last, the earliest and latest time."""

    count: int = 0
    first: int = 0
    last: int = 0
    min_us: int = 0
    max_us: int = 0


class SegmentHead(msgspec.Struct, frozen=True):
    """The signed description of the events ``first`` to ``last``. Bytes, base64 in the file.

    ``before`` and ``chain``: the chain's value before the first and at the last. ``content``: SHA-256 of the packed events.
    ``newest_us``: the newest observation. ``counts``: (cluster, type, events), sorted. ``keys``: the first bytes of the keys'
    digests, sorted, :data:`KEY_BYTES` of each.
    """

    format: int
    first: int
    last: int
    before: bytes
    chain: bytes
    content: bytes
    newest_us: int
    counts: tuple[tuple[str, str, int], ...]
    ticks: Ticks
    keys: bytes
    public_key: bytes = b""
    signature: bytes = b""

    @property
    def signed_content(self) -> bytes:
        """The signed content."""
        unsigned = msgspec.structs.replace(self, signature=b"")
        return _CONTEXT + hashlib.sha256(encode_head(unsigned)).digest()

    def has_key(self, key: str) -> bool:
        """Whether an event of this key may be in it."""
        wanted, place = _key_digest(key), -1
        while (place := self.keys.find(wanted, place + 1)) % KEY_BYTES:
            if place < 0:
                return False
        return True


encode_head = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(SegmentHead, strict=True).decode
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Row]).decode


class Content:
    """The events of a segment, or of a part of one, starting after the chain's value ``before``."""

    def __init__(self, rows: list[Row], before: bytes = b"") -> None:
        self.rows = rows
        self._before = before

    def events(self, after: int = 0, until: int | None = None) -> list[Event]:
        """The events after one sequence, and up to another, in order."""
        first = self.rows[0][0]
        end = len(self.rows) if until is None else max(until - first + 1, 0)
        return [event_of(row) for row in self.rows[max(after - first + 1, 0) : end]]

    @cached_property
    def links(self) -> list[bytes]:
        """The chain's value at each."""
        return chain(self._before, self.events())


def pack(events: Iterable[Event], level: int = 10) -> bytes:
    """The events in one frame, byte for byte."""
    import zstandard  # A question to an untrimmed ledger does not use it.

    rows = [row_of(event) for event in events]
    return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(_encode(rows))


def unpack(packed: bytes, count: int) -> list[Row]:
    """The ``count`` events in a frame of :func:`pack`. Raises DamagedSegmentError, before anything of their size is made."""
    import zstandard

    most = min(MOST_BYTES + count * MOST_EVENT_BYTES, LARGEST)
    try:
        # zstandard heeds its own bound only where the frame does not say its size; ours all do.
        if not 0 <= zstandard.frame_content_size(packed) <= most:
            raise DamagedSegmentError(f"its size is above {most:,} bytes, or missing")
        rows = zstandard.ZstdDecompressor().decompress(packed)
        # One row takes a dozen bytes here and a hundred times as many in memory.
        if (found := _length(rows)) != count:
            raise DamagedSegmentError(f"it holds {found:,} events where {count:,} are named")
        return _decode(rows)
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedSegmentError(str(error)) from None


def _length(rows: bytes) -> int:
    """The number of elements in a MessagePack array's header; -1 = invalid."""
    kind = rows[0] if rows else 0
    if kind >> 4 == 0b1001:
        return kind & 0b1111
    width = _LENGTHS.get(kind, 0)
    return int.from_bytes(rows[1 : 1 + width]) if width else -1


def head_of(events: Sequence[Event], before: bytes, content: bytes) -> SegmentHead:
    """The head of these events with the digest ``content``, not signed yet."""
    counts = Counter((event.cluster, event.type) for event in events)
    ticks = [event for event in events if event.type == ClockTicked.wire_type]
    times = [event.time_us for event in ticks]
    ticked = Ticks(len(ticks), ticks[0].sequence, ticks[-1].sequence, min(times), max(times)) if ticks else Ticks()  # fmt: skip
    keys = sorted({_key_digest(key) for key in {event.key for event in events}})
    return SegmentHead(
        FORMAT, events[0].sequence, events[-1].sequence, before, chain(before, events)[-1], content,
        max(event.time_us for event in events),
        tuple((*name, count) for name, count in sorted(counts.items())), ticked, b"".join(keys),
    )  # fmt: skip


def joined(head: SegmentHead, packed: bytes) -> bytes:
    """The file of a segment."""
    encoded = encode_head(head)
    return _SKIPPABLE + len(encoded).to_bytes(4, "little") + encoded + packed


def parted(file: bytes) -> tuple[SegmentHead, bytes]:
    """Head and packed events of a file. Raises DamagedSegmentError."""
    size = int.from_bytes(file[4:8], "little")
    if file[:4] != _SKIPPABLE or len(file) < 8 or size > min(len(file) - 8, LARGEST_HEAD):
        raise DamagedSegmentError("it does not begin as a segment does, or is cut short")
    return read_head(file[8 : 8 + size]), file[8 + size :]


def read_head(content: bytes) -> SegmentHead:
    """The head in these bytes. Raises DamagedSegmentError."""
    try:
        head = _decode_head(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedSegmentError(f"its head cannot be read: {error}") from None
    if head.format != FORMAT:
        raise DamagedSegmentError(f"it is of form {head.format}: upgrade Bursar")
    return head


def row_of(event: Event) -> Row:
    """An event as it is packed."""
    return (
        event.sequence, event.cluster, event.type, event.key, event.id, event.source, event.time_us,
        event.version, event.defect, event.body,
    )  # fmt: skip


def size_of(event: Event) -> int:
    """Bytes of an event's body and attributes, with room for MessagePack's overhead."""
    attributes = event.cluster, event.type, event.key, event.id, event.source, event.defect
    return len(event.body) + sum(len(a) if a.isascii() else 4 * len(a) for a in attributes) + 64


def event_of(row: Row) -> Event:
    """The event in a packed row."""
    sequence, cluster, type, key, id, source, time_us, version, defect, body = row
    return Event(cluster, type, key, id, source, time_us, body, version, sequence, defect)


def _key_digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()

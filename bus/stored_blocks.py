"""ADAPTER: the files of an embedded server's stream: their end while no server runs, and digests of closed blocks.

A block holds messages one after the other: length (its highest bit: there are headers), sequence (its two highest bits:
erased, tombstone), time, subject, headers, body, checksum. Closed blocks may be compressed; then they begin with `cmp`. The
last one is open.

Source: nats-server 2.15, `server/filestore.go`; docs/reliability.md.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from bus import private_files

#: Of the stream of the history below a store.
_MESSAGES = "jetstream/$G/streams/{stream}/msgs"
_COMPRESSED = b"cmp"
#: Bytes of a closed block up to its first sequence, unpacked and as on disk.
_BEGINNING, _PACKED = 12, 512
_HEADERS, _TOMBSTONE, _MARKS = 1 << 31, 1 << 62, 3 << 62
#: Bytes of a message without subject, headers and body, and more than one has.
_LEAST, _MOST = 30, 2**26


def blocks_of(store: Path, stream: str) -> list[Path]:
    """The blocks of a stream, in order. Raises OSError where the store cannot be read."""
    folder = store / _MESSAGES.format(stream=stream)
    found = [path for path in folder.iterdir() if path.suffix == ".blk"] if folder.is_dir() else []
    return sorted(found, key=lambda path: int(path.stem) if path.stem.isdigit() else 0)


def last_sequence(store: Path, stream: str) -> int | None:
    """The last whole message; 0 without one, None for an unreadable last block."""
    for path in reversed(blocks_of(store, stream)):
        content = path.read_bytes()
        if content.startswith(_COMPRESSED):
            return None
        if found := _last_in(content):
            return found
    return 0


def _last_in(content: bytes) -> int:
    place = last = 0
    while place + _LEAST <= len(content):
        length = int.from_bytes(content[place : place + 4], "little") & ~_HEADERS
        sequence = int.from_bytes(content[place + 4 : place + 12], "little")
        if not _LEAST <= length <= min(_MOST, len(content) - place):
            break
        if not sequence & _TOMBSTONE:
            last = sequence & ~_MARKS
        place += length
    return last


class ClosedBlock(msgspec.Struct, frozen=True):
    """A complete block. ``first``: its first sequence; 1 if it is unreadable."""

    name: str
    first: int
    sha256: str


def closed_blocks(store: Path, stream: str) -> list[ClosedBlock]:
    """All blocks but the last, in order. Raises OSError where one cannot be read."""
    return [_closed(path) for path in blocks_of(store, stream)[:-1]]


def _closed(path: Path) -> ClosedBlock:
    with path.open("rb") as file:
        beginning = file.read(_PACKED)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if beginning.startswith(_COMPRESSED):
        beginning = _unpacked(beginning)
    is_whole = len(beginning) >= _BEGINNING
    first = int.from_bytes(beginning[4:_BEGINNING], "little") & ~_MARKS if is_whole else 1
    return ClosedBlock(path.name, first, digest)


def _unpacked(packed: bytes) -> bytes:
    """The first bytes of a compressed block: algorithm, size, then S2 chunks; fewer where it is damaged."""
    try:
        place = _behind_number(packed, len(_COMPRESSED) + 1)
        while packed[place] not in (0, 1):
            # The stream's identifier, and padding.
            place += 4 + int.from_bytes(packed[place + 1 : place + 4], "little")
        if packed[place] == 1:
            return packed[place + 8 : place + 8 + _BEGINNING]
        return _decoded(packed, _behind_number(packed, place + 8))
    except (IndexError, ValueError):
        return b""


def _behind_number(packed: bytes, place: int) -> int:
    while packed[place] & 0x80:
        place += 1
    return place + 1


def _decoded(packed: bytes, place: int) -> bytes:
    """The first bytes of an S2 block, by its tags: literals, and copies of earlier bytes."""
    found, offset = bytearray(), 0
    while len(found) < _BEGINNING:
        tag, place = packed[place], place + 1
        size, kind = tag >> 2, tag & 3
        if kind == 0:
            more = max(size - 59, 0)
            size = int.from_bytes(packed[place : place + more], "little") if more else size
            place += more
            found += packed[place : place + min(size + 1, _BEGINNING)]
            if place >= len(packed):
                raise ValueError("a literal is cut short")
            place += size + 1
            continue
        if kind == 1:
            far = (tag & 0xE0) << 3 | packed[place]
            size, place = (size & 7) + 4, place + 1
            # A repeat of the last offset; longer ones end beyond the read bytes.
            offset = far or offset
        else:
            width = 2 if kind == 2 else 4
            offset = int.from_bytes(packed[place : place + width], "little")
            size, place = size + 1, place + width
        if not 0 < offset <= len(found):
            raise ValueError("a copy of nothing")
        for _ in range(size):
            found.append(found[-offset])
    return bytes(found[:_BEGINNING])


def recorded_blocks(file: Path) -> set[ClosedBlock]:
    """The blocks as they were when all their messages were read last; empty where there is no record."""
    try:
        return set(msgspec.json.decode(file.read_bytes(), type=list[ClosedBlock]))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return set()


def record_blocks(file: Path, blocks: list[ClosedBlock]) -> None:
    """Record blocks with readable messages only. Raises OSError."""
    private_files.replace(file, msgspec.json.encode(blocks))

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
_HEADERS, _TOMBSTONE, _MARKS = 1 << 31, 1 << 62, 3 << 62
#: Bytes of a message without subject, headers and body, and more than one has.
_LEAST, _MOST = 30, 2**26


def blocks_of(store: Path, stream: str) -> list[Path]:
    """The blocks of a stream, in order. Raises OSError where the store cannot be read."""
    folder = store / _MESSAGES.format(stream=stream)
    found = [path for path in folder.iterdir() if path.suffix == ".blk"] if folder.is_dir() else []
    return sorted(found, key=lambda path: int(path.stem) if path.stem.isdigit() else 0)


def last_sequence(store: Path, stream: str) -> int | None:
    """The last message that is whole; 0 where there is none, None where the last block cannot be read so."""
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
    """A block to which nothing is added any more. ``first``: its first sequence; 1 where it is compressed."""

    name: str
    first: int
    sha256: str


def closed_blocks(store: Path, stream: str) -> list[ClosedBlock]:
    """All blocks but the last, in order. Raises OSError where one cannot be read."""
    return [_closed(path) for path in blocks_of(store, stream)[:-1]]


def _closed(path: Path) -> ClosedBlock:
    with path.open("rb") as file:
        beginning = file.read(12)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    is_plain = not beginning.startswith(_COMPRESSED)
    first = int.from_bytes(beginning[4:12], "little") & ~_MARKS if is_plain else 1
    return ClosedBlock(path.name, first, digest)


def recorded_blocks(file: Path) -> set[ClosedBlock]:
    """The blocks as they were when all their messages were read last; empty where there is no record."""
    try:
        return set(msgspec.json.decode(file.read_bytes(), type=list[ClosedBlock]))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return set()


def record_blocks(file: Path, blocks: list[ClosedBlock]) -> None:
    """Record blocks whose messages can all be read. Raises OSError."""
    private_files.replace(file, msgspec.json.encode(blocks))

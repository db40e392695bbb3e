"""ADAPTER: the files of an embedded server's stream, read while no server runs.

A block holds messages one after the other: length (its highest bit: there are headers), sequence (its two highest bits:
erased, tombstone), time, subject, headers, body, checksum. Closed blocks may be compressed; then they begin with `cmp`. The
last one is open.

Source: nats-server 2.15, `server/filestore.go`; docs/reliability.md.
"""

from __future__ import annotations

from pathlib import Path

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

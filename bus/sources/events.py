"""Recorded histories as a source: one event a line, as ``bursar export`` writes them, plain or
compressed.

The envelope is CloudEvents' JSON format with Bursar's extension attributes; see
:mod:`bus.envelope`. The sequence of a line is the place it once had; a bus gives it a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from bus import strict
from bus.envelope import Event, from_line
from bus.errors import BursarError, EnvelopeError

#: Longest line: a largest message, with room for the attributes around its body and for escapes.
LONGEST_LINE = 512 * 1024
#: Bytes of a file read at once.
CHUNK = 64 * 1024
#: Bytes of a compressed file read at once, and the largest window of a frame.
PIECE = 1024
WINDOW = 8 * 1024 * 1024
#: The largest unpacked size of a compressed file: this multiple of its size (exports have 20 to 200), and never
#: more than 1 TiB. Below 64 MiB there is no check.
RATIO = 1_000
FREE = 64 * 1024 * 1024
LARGEST = 1024**4


def read_lines(path: Path | str) -> Iterator[Event]:
    """The events of an NDJSON file in its order; ``.zst`` is read as Zstandard frames. Empty lines
    are passed over.

    Raises EnvelopeError with file and line at the first invalid line; those before it were yielded.
    """
    path = Path(path)
    number = 0
    try:
        with path.open("rb") as file:
            chunks = _decompressed(file) if path.suffix == ".zst" else _chunks(file)
            for number, line in enumerate(_lines(chunks), 1):
                if text := line.strip():
                    yield _event(text, path, number)
    except (OSError, zstandard.ZstdError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise EnvelopeError(
            f"{path}, after line {number}: cannot be read: {reason}", file=path.name, line=number
        ) from error


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _decompressed(file: BinaryIO) -> Iterator[bytes]:
    """The content of all frames of ``file``: segments are appended to each other.

    Not by the library's reader: it ends silently at a truncated file.
    """
    frame: zstandard.ZstdDecompressionObj | None = None
    read = made = 0
    # A few bytes of a frame can stand for 128 KB: small pieces bound the output of one step.
    while chunk := file.read(PIECE):
        rest = chunk
        read += len(chunk)
        while rest:
            frame = frame or zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
            text = frame.decompress(rest)
            made += len(text)
            if made > LARGEST or made > max(read * RATIO, FREE):
                raise zstandard.ZstdError(
                    f"{read:,} bytes stand for more than {made:,}: no export does; where it is one, "
                    "decompress it with `zstd -d` first"
                )
            yield text
            rest = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame = None
    if frame is not None:
        raise zstandard.ZstdError("the last frame is cut short")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines in ``chunks``; the last needs no end. One longer than the limit comes as its
    start.
    """
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        if len(rest) > LONGEST_LINE:
            break
    if rest:
        yield rest


def _event(text: bytes, path: Path, number: int) -> Event:
    try:
        return from_line(strict.well_formed(text, max_bytes=LONGEST_LINE))
    except BursarError as error:
        raise EnvelopeError(
            f"{path}, line {number}: {error}", file=path.name, line=number
        ) from error

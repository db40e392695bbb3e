"""Writes the archive to files: events one a line, compressed if the file's name asks for it, or held segments as Parquet.

A file appears under its name when it is complete; until then it has another one.

Source: ``docs/history.md`` (the line format); docs/reliability.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import sqlalchemy as sa
import zstandard

from bus.envelope import Event, to_line
from bus.errors import BursarError
from bus.private_files import create, draft
from deploy.errors import SettingsError
from projections.engine.replay import archived, live_checkpoint
from projections.engine.restored import Carried
from projections.pod_runs import held_segments

#: Rows read at once.
READ = 2_000


class Written(msgspec.Struct):
    """The result of an export. ``first`` and ``last`` are sequences, 0 for an empty one."""

    files: list[str] = []
    rows: int = 0
    first: int = 0
    last: int = 0


def export_events(
    connection: sa.Connection, path: Path, first: int, segment: int, *, force: bool = False
) -> Written:
    """Write the events from ``first`` on. With ``segment`` > 0 into files of so many, named by their first sequence.

    An event that was never readable, or has a repeated id, cannot be imported as it is. It is written with its exact
    bytes in the restored form, and this can be imported: :mod:`projections.engine.restored`.

    Raises SettingsError if a file cannot be written, or exists already without ``force``.
    """
    written = Written()
    until = live_checkpoint(connection).sequence
    forms = Carried()
    for part in archived(connection, 1, min(first - 1, until), READ):
        for event in part:
            forms.mark(event.id)
    parts = archived(connection, first, until, READ)
    found = (forms.carried(event) for part in parts for event in part)
    following = next(found, None)
    while following is not None or not written.files:
        target = path
        if segment and following is not None:
            name, dot, rest = path.name.partition(".")
            target = path.with_name(f"{name}-{following.sequence:012d}{dot}{rest}")
        with whole(target, force) as file:
            following = _fill(file, following, found, segment, written)
        written.files.append(str(target))
    return written


def _fill(
    file: Any, following: Event | None, found: Iterator[Event], segment: int, written: Written
) -> Event | None:
    count = 0
    while following is not None and (not segment or count < segment):
        file.write(to_line(following) + b"\n")
        count += 1
        written.rows += 1
        written.first = written.first or following.sequence
        written.last = following.sequence
        following = next(found, None)
    return following


@contextmanager
def whole(path: Path, force: bool) -> Iterator[Any]:
    """A file that exists complete or not at all. Raises SettingsError if it cannot be written, or exists already."""
    new = draft(path)
    there = SettingsError(f"{path} is there already: another name, or --force to write over it")
    if path.exists() and not force:
        raise there
    try:
        with create(new) as raw:
            with _packed(raw, path) as file:
                yield file
            raw.flush()
            os.fsync(raw.fileno())
        if force:
            new.replace(path)
        else:
            # Unlike a rename, a link is refused where the name was taken meanwhile.
            path.hardlink_to(new)
    except FileExistsError:
        raise there from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def _packed(raw: BinaryIO, path: Path) -> Iterator[Any]:
    if path.suffix == ".zst":
        with zstandard.ZstdCompressor(level=10).stream_writer(raw, closefd=False) as file:
            yield file
    else:
        yield raw


def export_parquet(connection: sa.Connection, path: Path, *, force: bool = False) -> Written:
    """Write the held segments as one Parquet file. Raises BursarError without pyarrow, and as :func:`export_events`."""
    try:
        # Its stubs lack half of its names.
        pa: Any = import_module("pyarrow")
        pq: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise BursarError(
            "Parquet needs the extra `parquet`: pip install 'bursar[parquet]'"
        ) from None
    kinds = {"TEXT": pa.string(), "INTEGER": pa.int64(), "BIGINT": pa.int64()}
    names = held_segments.columns.keys()
    schema = pa.schema([(c.name, kinds[str(c.type)]) for c in held_segments.columns])
    written = Written([str(path)])
    query = sa.select(held_segments).order_by(held_segments.c.uid, held_segments.c.start_s)
    result = connection.execute(query.execution_options(yield_per=READ))
    with whole(path, force) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for part in result.partitions(READ):
            columns = [list(values) for values in zip(*part, strict=True)]
            writer.write_batch(
                pa.record_batch(
                    [pa.array(v, f.type) for v, f in zip(columns, schema, strict=True)], names=names
                )
            )
            written.rows += len(part)
    return written

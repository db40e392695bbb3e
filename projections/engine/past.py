"""ADAPTER: the ledger as it was after an earlier event, in a database file of its own.

Rows are folded from the archive by the same folds as ever, from the first event up to that one, and kept. The next
question as of that event opens the file; So the first question costs all events before it, a later one those in
between. So the first question costs as many events as lie before it, a later one those in between.

A file is named by the rules and the schema, the event and the chain's value there: another history, or other rules,
have other files. It is made under another name and put in place whole, so a killed process leaves no readable file.
Of SQLite the file holds rows alone, and the archive is read from the live ledger up to the event; of PostgreSQL it
holds the archive, too.

Source: docs/operating.md.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bus import private_files
from bus.clock import SECOND_US, SystemClock
from bus.errors import LedgerError
from bus.events.clock import ClockTicked
from projections.engine.beside import over
from projections.engine.checkpoint import Checkpoint
from projections.engine.collecting import seldom_collecting
from projections.engine.contract import METADATA
from projections.engine.dump import snapshot
from projections.engine.model import Model
from projections.engine.replay import Progress, Rebuilt, live_checkpoint
from projections.engine.segments.form import Ticks
from projections.engine.segments.reading import (
    Wanted,
    chain_at,
    packed,
    selecting,
    trimmed,
    trimmed_until,
)
from projections.engine.store import Store, engine, readable_uri
from projections.engine.tables import checkpoints, events, heads, parked, segments, snapshots

#: Number of kept files, the last used ones.
KEPT = 8
#: The share of the disk reserved for the ledger and the bus.
LEFT = 0.1
#: Age until files of a dead process are deleted.
STALE_SECONDS = 3_600
#: Tables of the live ledger, shown up to the event.
_SHOWN = (events, heads, segments, snapshots)


def past_rows(
    model: Model,
    live: sa.Engine,
    folder: Path,
    sequence: int,
    *,
    progress: Progress | None = None,
) -> Path:
    """The file with the rows of ``live`` as they were after the event ``sequence``, made if it is not kept in ``folder``.

    Raises LedgerError for a missing event, for an archive with a gap or a broken chain, or for a file larger than
    the room reserved for the ledger allows.
    """
    store = Store(live)
    with snapshot(store) as connection:
        path = folder / _name(model, connection, sequence)
        if not path.is_file():
            _make_room(folder, _size(connection))
            # Process numbers repeat in containers.
            work = private_files.draft(path)
            try:
                _make(model, store, connection, work, sequence, progress)
                private_files.sync(work)
                os.replace(work, path)
                private_files.sync(folder)
            finally:
                work.unlink(missing_ok=True)
    os.utime(path)
    _tidy(folder, path)
    return path


def past_engine(path: Path, live: sa.Engine, sequence: int, views: Sequence[str]) -> sa.Engine:
    """An engine with such a file, and behind it ``live`` up to the event ``sequence``.

    ``views``: statements for temporary views.
    """
    made = engine(f"sqlite:///{path}", read_only=True)
    is_file = live.dialect.name == "sqlite"

    @sa.event.listens_for(made, "connect")
    def attach(connection: Any, _: Any) -> None:
        # A later setting would lose the views.
        connection.execute("PRAGMA temp_store = MEMORY")
        if is_file:
            driver = made.dialect.loaded_dbapi
            behind = readable_uri(driver, Path(str(live.url.database)))
            connection.execute("ATTACH DATABASE ? AS live", (behind,))
            for table in _SHOWN:
                # A segment may go on beyond the event: its readers end there.
                column = "first" if table is segments else "sequence"
                connection.execute(
                    f"CREATE TEMP VIEW {table.name} AS SELECT * FROM live.{table.name}"
                    f" WHERE {column} <= {int(sequence)}"
                )
        for view in views:
            connection.execute(view)

    return made


def sequence_before(connection: sa.Connection, moment_us: int) -> int:
    """The last event published by ``moment_us``; 0 without one. Reads the whole archive.

    The ticks of the clock say when: the moment lies where the fewest of them are out of place, later ones before it
    or earlier ones after it, so a temporarily wrong clock moves nothing. Of the events between two ticks those
    before the first one observed later count.
    """
    select = selecting(connection)
    first, until, out, fewest = 1, live_checkpoint(connection).sequence, 0, 0
    end, is_best = until, True
    for ticked in _ticked(connection, moment_us):
        if is_best:
            until, is_best = ticked.first - 1, False
        # All are on one side: the fewest are out of place behind the last of them, or before the first.
        out += ticked.count if ticked.min_us > moment_us else -ticked.count
        if out < fewest:
            first, until, fewest, is_best = ticked.last, end, out, True
    for segment in trimmed(select, first - 1, until):
        for event in packed(segment, after=first - 1, until=until):
            if event.time_us > moment_us:
                return event.sequence - 1
    later = sa.select(sa.func.min(events.c.sequence)).where(
        events.c.time_us > moment_us, events.c.sequence >= first, events.c.sequence <= until,
        events.c.sequence > trimmed_until(select),
    )  # fmt: skip
    found = connection.execute(later).scalar()
    return until if found is None else int(found) - 1


def _ticked(connection: sa.Connection, moment_us: int) -> Iterator[Ticks]:
    """The ticks of the clock in order, those of a segment together where all lie on one side of the moment."""
    select = selecting(connection)
    for segment in trimmed(select):
        ticks = segment.head.ticks
        if ticks.count and (ticks.min_us > moment_us or ticks.max_us <= moment_us):
            yield ticks
        elif ticks.count:
            for event in packed(segment, Wanted(types=frozenset({ClockTicked.wire_type}))):
                yield Ticks(1, event.sequence, event.sequence, event.time_us, event.time_us)
    rest = (
        sa.select(events.c.sequence, events.c.time_us)
        .where(events.c.type == ClockTicked.wire_type, events.c.sequence > trimmed_until(select))
        .order_by(events.c.sequence)
        .execution_options(yield_per=10_000)
    )
    for sequence, time_us in connection.execute(rest):
        yield Ticks(1, sequence, sequence, time_us, time_us)


def _make(
    model: Model,
    live: Store,
    connection: sa.Connection,
    work: Path,
    sequence: int,
    progress: Progress | None,
) -> None:
    is_file = live.engine.dialect.name == "sqlite"
    begun = live_checkpoint(connection)
    start = Checkpoint(model.version, begun.stream, begun.stream_created_us, begun.incarnation)
    nearest = _nearest(model, connection, work.parent, sequence)
    if nearest is not None:
        shutil.copyfile(nearest, work)
    made = over(work, live.engine if is_file else None)
    METADATA.create_all(made, tables=(*model.tables, parked, checkpoints) if is_file else None)
    store = Store(made, archive=not is_file)
    if nearest is not None:
        start = store.checkpoint(model.version)
    with Rebuilt(model, live, store, start) as rebuilt, seldom_collecting():
        found = rebuilt.advance(connection, most=sequence - start.sequence, progress=progress)
    if found.chain != _chain(connection, sequence):
        raise LedgerError("the archive is not what its chain says: see `bursar verify`")


def _name(model: Model, connection: sa.Connection, sequence: int) -> str:
    chain = _chain(connection, sequence).hex()[:24]
    return f"{_rules(model, connection)}-{sequence:020d}-{chain}.db"


def _chain(connection: sa.Connection, sequence: int) -> bytes:
    found = chain_at(selecting(connection), sequence)
    if found is None:
        raise LedgerError("the archive has no such event", sequence=sequence)
    return found


def _rules(model: Model, connection: sa.Connection) -> str:
    """A short identifier of rules and tables."""
    schema = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return hashlib.sha256(f"{model.version} {schema}".encode()).hexdigest()[:12]


def _nearest(model: Model, connection: sa.Connection, folder: Path, sequence: int) -> Path | None:
    """The kept file of the newest earlier event of this history by these rules."""
    for path in sorted(folder.glob(f"{_rules(model, connection)}-*.db"), reverse=True):
        number = int(path.name.split("-")[1])
        if number < sequence and path.name == _name(model, connection, number):
            return path
    return None


def _tidy(folder: Path, used: Path) -> None:
    """Delete unused files, and files of a dead process."""
    kept = sorted(_dated(folder, "*.db"), reverse=True)[KEPT:]
    stale = SystemClock().now_us() / SECOND_US - STALE_SECONDS
    left = [one for one in _dated(folder, "*.db.*.new") if one[0] < stale]
    for _, path in (*kept, *left):
        if path != used:
            path.unlink(missing_ok=True)


def _size(connection: sa.Connection) -> int:
    """The bytes of the live ledger: the rows of a past moment have fewer."""
    if connection.dialect.name != "sqlite":
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())  # fmt: skip
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())


def _make_room(folder: Path, size: int) -> None:
    """Delete kept rows, the longest unused ones first, until a file of this size leaves enough of the disk."""
    for path in [*(path for _, path in sorted(_dated(folder, "*.db"))), None]:
        disk = shutil.disk_usage(folder)
        if disk.free - size >= disk.total * LEFT:
            return
        if path is not None:
            path.unlink(missing_ok=True)
    raise LedgerError(
        f"rows of an earlier moment may take {size / 2**30:.1f} GiB, and {disk.free / 2**30:.1f} GiB are free on the disk of "
        f"{folder}, of which a tenth of the disk is left to the ledger: make room, or ask a copy of the data folder elsewhere",
    )  # fmt: skip


def _dated(folder: Path, pattern: str) -> Iterator[tuple[float, Path]]:
    for path in folder.glob(pattern):
        try:
            yield path.stat().st_mtime, path
        except FileNotFoundError:
            # Another process tidies, too.
            continue

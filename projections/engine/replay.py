"""Builds the ledger's rows once more from its archive, beside the live ones; compares; puts them in place.

The rebuilt rows are in a place beside the live ones (:mod:`projections.engine.beside`), with the live archive
behind it.

A rebuild always begins at the first event and can be broken off anywhere: the next one starts over. The ledger may
go on meanwhile; :func:`compare` and :func:`swap` first fold the newer events.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import msgspec
import sqlalchemy as sa

from bus.crashpoints import crashpoint
from bus.envelope import Event
from bus.envelope import digest as digest_of
from bus.errors import LedgerError
from projections.engine.beside import Beside
from projections.engine.checkpoint import Checkpoint
from projections.engine.collecting import seldom_collecting
from projections.engine.dump import digest, snapshot, sorted_rows, stream
from projections.engine.folder import Folder
from projections.engine.model import Model
from projections.engine.restored import is_restored
from projections.engine.segments.reading import selecting, trimmed
from projections.engine.store import LEDGER, Store, event_of_row
from projections.engine.tables import checkpoints, events, parked

#: Events folded into one transaction. Larger is faster, as a frequently changed row is written once.
BATCH = 5_000

#: How many differing rows of each table are shown.
SHOWN = 5

#: (events folded, events there are)
Progress = Callable[[int, int], None]


class Rebuilt:
    """A ledger's rows, built once more. ``checkpoint`` has its last event. Close it to release its database."""

    def __init__(self, model: Model, live: Store, store: Store, checkpoint: Checkpoint) -> None:
        self.model = model
        self.store = store
        self.checkpoint = checkpoint
        self._live = live
        self._folder = Folder(model, store)
        self._folder.open()

    def advance(
        self,
        connection: sa.Connection,
        *,
        batch: int = BATCH,
        most: int | None = None,
        progress: Progress | None = None,
    ) -> Checkpoint:
        """Fold the live ledger's further events, seen through ``connection``, at most ``most`` of them.

        Raises LedgerError when its archive has a gap, or ends before its checkpoint.
        """
        until = live_checkpoint(connection).sequence
        if most is not None:
            until = min(until, self.checkpoint.sequence + most)
        for part in archived(connection, self.checkpoint.sequence + 1, until, batch):
            if part[-1].sequence != self.checkpoint.sequence + len(part):
                raise LedgerError(
                    "the archive has a gap: see `bursar verify`", after=self.checkpoint.sequence
                )
            self.checkpoint = self.store.commit(part, self._folder.fold(part), self.checkpoint)
            self._folder.settle()
            if progress is not None:
                progress(self.checkpoint.sequence, until)
        if self.checkpoint.sequence < until:
            raise LedgerError(
                "the archive ends before the ledger's checkpoint: see `bursar verify`",
                archive=self.checkpoint.sequence,
                checkpoint=until,
            )
        return self.checkpoint

    def close(self) -> None:
        """Let go of the rebuilt rows' database; its rows stay until the next rebuild or :func:`discard`."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Difference(msgspec.Struct, frozen=True):
    """The differences of two tables. ``first`` holds pairs (live row, rebuilt row), None for a missing row."""

    table: str
    rows: int
    first: tuple[tuple[tuple[Any, ...] | None, tuple[Any, ...] | None], ...]


class Comparison(msgspec.Struct, frozen=True):
    """Whether live and rebuilt rows are the same, to the last column, as of event ``sequence``."""

    equal: bool
    sequence: int
    rows: int
    differences: tuple[Difference, ...]


def rebuild(
    model: Model, live: Store, *, batch: int = BATCH, progress: Progress | None = None
) -> Rebuilt:
    """The rows of ``live``'s archive, folded from the first event to its present end by the rules of ``model``.

    Raises LedgerError when the archive has a gap, or when the ledger is an SQLite database in memory.
    """
    with snapshot(live) as connection:
        begun = live_checkpoint(connection)
        start = Checkpoint(model.version, begun.stream, begun.stream_created_us, begun.incarnation)
        rebuilt = Rebuilt(model, live, _place(live).made(model), start)
        try:
            with seldom_collecting():
                rebuilt.advance(connection, batch=batch, progress=progress)
        except BaseException:
            rebuilt.close()
            raise
    return rebuilt


def compare(live: Store, rebuilt: Rebuilt) -> Comparison:
    """Compare row by row, every column included, as of one moment of the live ledger."""
    with snapshot(live) as one:
        rebuilt.advance(one)
        with snapshot(rebuilt.store) as other:
            found = [_compared(one, other, table) for table in (*rebuilt.model.tables, parked)]
            checked = _as_archived(one, live_checkpoint(one))
    differences = [difference for _, difference in found if difference is not None]
    ours = rebuilt.checkpoint
    if (pair := (_position(checked), _position(ours)))[0] != pair[1]:
        differences.append(Difference(checkpoints.name, 1, (pair,)))
    rows = sum(count for count, _ in found)
    return Comparison(not differences, ours.sequence, rows, tuple(differences))


def without(compared: Comparison, missing: Model) -> Comparison:
    """The comparison without parts being filled, and without parked events. A fill puts these in place with its parts."""
    left_out = {table.name for table in (*missing.tables, parked)}
    found = tuple(one for one in compared.differences if one.table not in left_out)
    return msgspec.structs.replace(compared, equal=not found, differences=found)


def _as_archived(connection: sa.Connection, checkpoint: Checkpoint) -> Checkpoint:
    """``checkpoint`` with the digest of the archive's event, if it has the one of the same event's other form."""
    for (last,) in archived(connection, checkpoint.sequence, checkpoint.sequence, 1):
        if is_restored(last, checkpoint.digest):
            return msgspec.structs.replace(checkpoint, digest=digest_of(last))
    return checkpoint


def _position(checkpoint: Checkpoint) -> tuple[Any, ...]:
    """The part of a checkpoint computed from the history alone; open runs are valued at the last of it."""
    return (
        checkpoint.sequence, checkpoint.chain.hex(), checkpoint.digest.hex(), checkpoint.observed_us,
    )  # fmt: skip


def swap(live: Store, rebuilt: Rebuilt) -> Checkpoint:
    """Put the rebuilt rows in place of the live ones, with their rules' version, in one transaction.

    The runner must be stopped: its memory would belong to other rows. Raises LedgerError, with nothing
    changed, when the ledger moved on while the rows were put in place.
    """
    with snapshot(live) as connection:
        moved = rebuilt.advance(connection)
    place = _place(live)
    with place.writing() as connection:
        found = live_checkpoint(connection)
        if (found.sequence, found.chain) != (moved.sequence, moved.chain):
            raise LedgerError("the ledger moved on during the swap: stop its runner first")
        # The stream may carry the last event in its other form: its digest stays then.
        is_same = _as_archived(connection, found).digest == moved.digest
        kept = found.digest if is_same else moved.digest
        crashpoint("replay.before_swap")
        place.put(connection, (*rebuilt.model.tables, parked))
        connection.execute(
            checkpoints.update()
            .where(checkpoints.c.name == LEDGER)
            .values(version=moved.version, digest=kept, observed_us=moved.observed_us)
        )
    crashpoint("replay.after_swap")
    return moved


def redrive(model: Model, live: Store, *, progress: Progress | None = None) -> int:
    """Fold the parked events once more, after a fix, and return how many stay parked.

    By replay and swap, so each takes effect at its own place in the history. The runner must be stopped.
    """
    with rebuild(model, live, progress=progress) as rebuilt:
        swap(live, rebuilt)
    discard(live)
    return int(live.select(sa.select(sa.func.count()).select_from(parked))[0][0])


def discard(live: Store) -> None:
    """Delete the rebuilt rows, if there are any."""
    _place(live).discard()


def _place(live: Store) -> Beside:
    return Beside(live, "replay")


def live_checkpoint(connection: sa.Connection) -> Checkpoint:
    """The checkpoint as one connection sees it."""
    row = connection.execute(
        sa.select(checkpoints).where(checkpoints.c.name == LEDGER)
    ).one_or_none()
    return Checkpoint(*row[1:]) if row is not None else Checkpoint()


def archived(
    connection: sa.Connection, first: int, until: int, batch: int
) -> Iterator[list[Event]]:
    """The history's events of [first, until] in order, from segments and table, in lists of ``batch``."""
    waiting: list[Event] = []
    for part in _parts(connection, first, until):
        waiting += part
        while len(waiting) >= batch:
            yield waiting[:batch]
            del waiting[:batch]
    if waiting:
        yield waiting


def _parts(connection: sa.Connection, first: int, until: int) -> Iterator[list[Event]]:
    """Segments one by one, then the table in one statement: a connection sees one moment of both."""
    for segment in trimmed(selecting(connection), first - 1, until):
        yield segment.content().events(first - 1, until)
        first = segment.last + 1
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    statement = (
        f"SELECT {', '.join(events.columns.keys())} FROM events "
        f"WHERE sequence >= {mark} AND sequence <= {mark} ORDER BY sequence"
    )
    for rows in stream(connection, statement, (first, until)):
        yield [event_of_row(row) for row in rows]


def _compared(
    one: sa.Connection, other: sa.Connection, table: sa.Table
) -> tuple[int, Difference | None]:
    """(rows of the live table, difference), by one pass over both in the order of their keys."""
    width = len(table.primary_key.columns)
    left, right = (_flat(sorted_rows(connection, table)) for connection in (one, other))
    mine, theirs = next(left, None), next(right, None)
    count = different = 0
    first: list[tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]] = []
    while mine is not None or theirs is not None:
        is_mine = theirs is None or (mine is not None and _key(mine, width) <= _key(theirs, width))
        is_theirs = mine is None or (
            theirs is not None and _key(theirs, width) <= _key(mine, width)
        )
        pair = (mine if is_mine else None, theirs if is_theirs else None)
        if pair[0] != pair[1]:
            different += 1
            if len(first) < SHOWN:
                first.append(pair)
        if is_mine:
            count += 1
            mine = next(left, None)
        if is_theirs:
            theirs = next(right, None)
    return count, Difference(table.name, different, tuple(first)) if different else None


def _flat(parts: Iterator[list[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
    for rows in parts:
        yield from rows


def _key(row: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    # Python compares text by code points, in the order of its UTF-8 bytes.
    return row[:width]


__all__ = [
    "Comparison", "Difference", "Rebuilt", "archived", "compare", "digest", "discard", "rebuild",
    "redrive", "swap", "without",
]  # fmt: skip

"""``--at``: questions as of an earlier event or time, from the ledger's rows at the time."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import sqlalchemy as sa
import typer

from deploy.cli import times
from deploy.cli.rendering.bars import bar
from deploy.cli.rendering.output import say
from deploy.runtime import kept
from deploy.runtime.ledgers import reader
from deploy.settings.place import LedgerPlace, PastLedger
from projections.engine.past import past_rows, sequence_before
from projections.engine.replay import live_checkpoint
from projections.engine.segments.reading import event_at, selecting
from projections.evidence import newest_s

#: The folder of kept rows, in the data folder.
FOLDER = "past"


def place_at(place: LedgerPlace, at: str, option: str = "--at") -> LedgerPlace:
    """The place as of an event, or as of the last event published by a time. Prints the number of that event on stderr.

    Raises typer.BadParameter if there is no such event.
    """
    from projections.catalogue import MODEL

    made = reader(place)
    try:
        with made.connect() as connection, connection.begin():
            newest = live_checkpoint(connection).sequence
            sequence = sequence_at(connection, at, option)
            moment = times.stamp(_second(connection, sequence))
        with bar("rebuilding") as progress:
            path = past_rows(MODEL, made, _folder(place.data), sequence, progress=progress)
    finally:
        made.dispose()
    if kept.caller is None:
        say(f"as it was after event {sequence:,} of {newest:,}, {moment}")
    return replace(place, past=PastLedger(path, sequence))


def sequence_at(connection: sa.Connection, at: str, option: str) -> int:
    """An event by its number, or the last one published by a time. Raises typer.BadParameter if there is none."""
    newest = live_checkpoint(connection).sequence
    sequence = _sequence(connection, at, option)
    if kept.caller is not None:
        # When the whole history begins is not told.
        sequence = max(sequence, 1)
    if 1 <= sequence <= newest:
        return sequence
    asked = (
        f"there is no event {at[:20]}" if at.isdecimal() else f"nothing was published by {at[:64]}"
    )
    raise typer.BadParameter(
        f"{asked}: the history has the events 1 to {newest:,}, the first at "
        f"{times.stamp(_second(connection, 1))}",
        param_hint=option,
    )


def _sequence(connection: sa.Connection, at: str, option: str) -> int:
    if at.isdecimal():
        return int(at[:20])
    newest = newest_s(lambda query: [tuple(row) for row in connection.execute(query)])
    second = times.second_of(at, ZoneInfo("UTC"), option, max(newest.values(), default=0))
    return sequence_before(connection, ((second or 0) + 1) * 1_000_000 - 1)


def _second(connection: sa.Connection, sequence: int) -> int | None:
    found = event_at(selecting(connection), sequence)
    return None if found is None else found.time_us // 1_000_000


@functools.cache
def _folder(data: Path) -> Path:
    """The folder of past rows; if the data folder is read-only, a folder removed at the end of the process."""
    from bus.private_files import own_folder

    if os.access(data, os.W_OK) or not data.exists():
        own_folder(data / FOLDER)
        return data / FOLDER
    folder = Path(tempfile.mkdtemp(prefix="bursar-past-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

"""``bursar history``: the sealed segments of a long history."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deploy.cli.history.keeping import writing
from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.bars import bar
from deploy.cli.rendering.output import write
from deploy.runtime.ledgers import reading

_FIELDS = ("first", "last", "trimmed", "file", "problem")
_COLUMNS = (
    field("FIRST"),
    field("LAST"),
    field("TRIMMED"),
    field("PROBLEM"),
    field("FILE"),
)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    command(app, "segments", question=True)(segments)
    command(app, "seal")(seal)
    command(app, "trim")(trim)


def segments(asked: CommandContext) -> None:
    """Sealed segments: events, file, and copies in the table.

    `bursar verify` checks their contents.

    Example: bursar history segments
    """
    from bus.errors import LedgerError, SegmentPlaceError
    from projections.engine.segments.reading import sealed, selecting

    rows: list[dict[str, Any]] = []
    with reading(asked.place) as connection:
        for one in sealed(selecting(connection)):
            problem = ""
            try:
                one.bytes()
            except (LedgerError, SegmentPlaceError) as error:
                problem = str(error)
            rows.append(
                {"first": one.first, "last": one.last, "trimmed": one.trimmed, "file": one.where, "problem": problem}
            )  # fmt: skip
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS)


def seal(
    asked: CommandContext,
) -> None:
    """Seal the events since the last segment. Each segment has `history.segment_events`. `bursar up` does so by itself.

    Example: bursar history seal
    """
    from deploy.runtime.sealing import sealer_of

    count, last = 0, 0
    _require(asked)
    with writing(asked, "history seal") as store, bar("sealing") as progress:
        sealer = sealer_of(asked.settings, store)
        until = store.checkpoint("").sequence
        while (head := sealer.seal()) is not None:
            count, last = count + 1, head.last
            progress(last, until)
    write([{"sealed": count, "until": last}], asked.output, title="Sealed", one=True)


def trim(
    asked: CommandContext,
    days: Annotated[
        int, typer.Option("--keep-days", min=1, max=36_500, help="Days that stay in the table.")
    ],
) -> None:
    """Delete events of checked segments from the ledger's table. End `bursar up` first.

    Questions read segments and table as one history, so keep the segments, and copies of them elsewhere. With `history.keep`
    `bursar up` trims by itself.

    Example: bursar history trim --keep-days 90
    """
    from deploy.runtime.sealing import sealer_of

    count, last = 0, 0
    _require(asked)
    with writing(asked, "history trim") as store:
        sealer = sealer_of(asked.settings, store)
        while (head := sealer.trim(days * 86_400_000_000)) is not None:
            count, last = count + 1, head.last
    write([{"trimmed": count, "until": last}], asked.output, title="Trimmed", one=True)


def _require(asked: CommandContext) -> None:
    if not asked.settings.history.segment_events:
        raise typer.BadParameter("history.segment_events is 0: nothing is sealed")
    if not asked.settings.seals:
        raise typer.BadParameter(
            "a ledger on PostgreSQL needs history.folder, a bucket, or a folder that all processes of Bursar have"
        )

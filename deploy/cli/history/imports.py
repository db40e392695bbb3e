"""``bursar import``: recorded events onto the bus and into the ledger."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.errors import TimestampError
from bus.events.histories import HistoryImported
from bus.sources import openb
from bus.sources.events import read_lines
from deploy.cli.options import CommandContext, command
from deploy.cli.rendering import Format
from deploy.cli.rendering.bars import FILLS
from deploy.cli.rendering.consoles import console
from deploy.cli.rendering.output import say, write
from deploy.hints import hint

if TYPE_CHECKING:
    from deploy.runtime.import_events import Taken


def register(app: typer.Typer) -> None:
    """Add the commands of ``import``."""
    command(app, "openb")(trace)
    command(app, "events")(recorded)


def trace(
    asked: CommandContext,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with the trace's CSV files.")
    ],
    pods: Annotated[
        Path | None,
        typer.Option("--pods", metavar="FILE", help="Pod list: a name in DIR or a path."),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option("--nodes", metavar="FILE", help="Node list: a name in DIR or a path."),
    ] = None,
    epoch: Annotated[
        str, typer.Option("--epoch", metavar="TIME", help="When the trace's second 0 was.")
    ] = "1970-01-01T00:00:00Z",
) -> None:
    """Play the GPU cluster trace openb (8,152 pods) as if observed.

    Example: bursar import openb traces/openb --data /tmp/openb
    """
    try:
        epoch_us = parse_stamp(epoch)
    except TimestampError as error:
        raise typer.BadParameter(str(error), param_hint="--epoch") from None
    events = list(_trace(asked, folder, pods, nodes, epoch_us))
    _take_in(asked, HistoryImported(input=str(folder)), events, len(events))


def _trace(
    asked: CommandContext, folder: Path, pods: Path | None, nodes: Path | None, epoch_us: int
) -> Iterable[Event]:
    settings = asked.settings
    policy, cluster = settings.observed(), settings.cluster.name
    if nodes is None:
        return openb.read_trace(folder, pods, epoch_us, cluster=cluster, labels=policy)
    with tempfile.TemporaryDirectory() as named:
        # The reader knows the node list by its name only.
        (Path(named) / openb.NODES_FILE).symlink_to((folder / nodes).absolute())
        pods_file = (folder / (pods or openb.PODS_FILE)).absolute()
        return openb.read_trace(named, pods_file, epoch_us, cluster=cluster, labels=policy)


def recorded(
    asked: CommandContext,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="FILE.ndjson or FILE.ndjson.zst.")],
    whole: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also decisions, pauses, policies and credits. They are obeyed: only for a history of your own.",
        ),
    ] = False,
) -> None:
    """Import events that `bursar export` wrote.

    By default only observations are imported. Pauses, policies and credits in a file take effect like your own commands, so
    they need --all. The history records the source of the events (`history.imported`).

    \b
    bursar import events observed.ndjson.zst
    bursar import events backup.ndjson.zst --all     a backup of your own, whole
    """
    if not file.is_file():
        raise typer.BadParameter(f"{file} is no file", param_hint="FILE")
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    origin = HistoryImported(input=str(file), digest=digest, whole=whole)
    _take_in(asked, origin, read_lines(file), None)


def _take_in(
    asked: CommandContext, origin: HistoryImported, events: Iterable[Event], total: int | None
) -> None:
    began = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=(out := console(stderr=True)),
        transient=True,
        disable=not out.is_terminal,
    )
    # The bus adapter takes its time to import, and `--help` should not pay for it.
    from deploy.runtime.bootstrap import run
    from deploy.runtime.import_events import saying, take_in

    with saying(asked.settings, events, origin) as child, bar:
        published = bar.add_task("on the bus", total=total)
        booked = bar.add_task("in the ledger", total=total)

        def progress(count: int, sequence: int) -> None:
            bar.update(published, completed=count)
            bar.update(booked, completed=sequence, total=max(total or 0, count, sequence))

        def filling(done: int, of: int) -> None:
            if len(bar.task_ids) == 2:
                say(FILLS)
                bar.add_task("filling")
            bar.update(bar.task_ids[2], completed=done, total=of)

        taken = run(take_in(asked.settings, child, progress, filling))
    _summary(asked, origin.input, taken, time.monotonic() - began)


def _summary(asked: CommandContext, name: str, taken: Taken, seconds: float) -> None:
    row = {"input": name, **msgspec.structs.asdict(taken), "seconds": round(seconds, 2)}
    footer = ["Ask: " + "    ".join(map(hint, ("report --by team,day", "acct", "status")))]
    if asked.output is Format.TABLE:
        kinds = row.pop("kinds")
        if taken.left_out:
            counts = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items()))
            footer.insert(0, f"Left out, as they were not observed: {counts}.")
            footer.insert(
                1, "From a history of your own, take them too with --all: they are obeyed."
            )
    write([row], asked.output, title="Imported", footer=footer, one=True)

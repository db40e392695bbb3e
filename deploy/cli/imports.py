"""``bursar import``: recorded events onto the bus and into the ledger."""

from __future__ import annotations

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
from bus.sources import openb
from bus.sources.events import read_lines
from deploy.cli.options import Asked, command
from deploy.cli.output import console, write

if TYPE_CHECKING:
    from deploy.intake import Taken

app = typer.Typer(
    no_args_is_help=True,
    help="Take recorded events in. Importing the same again changes nothing.",
)


@command(app, "openb")
def trace(
    asked: Asked,
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
    """Play the GPU cluster trace openb (8,152 pods) as if it were watched.

    Example: bursar import openb traces/openb --data /tmp/openb
    """
    try:
        epoch_us = parse_stamp(epoch)
    except TimestampError as error:
        raise typer.BadParameter(str(error), param_hint="--epoch") from None
    events = list(_trace(asked, folder, pods, nodes, epoch_us))
    _take_in(asked, str(folder), events, len(events))


def _trace(
    asked: Asked, folder: Path, pods: Path | None, nodes: Path | None, epoch_us: int
) -> Iterable[Event]:
    settings = asked.settings
    policy, cluster = settings.labels.policy(), settings.cluster.name
    if nodes is None:
        return openb.read_trace(folder, pods, epoch_us, cluster=cluster, labels=policy)
    with tempfile.TemporaryDirectory() as named:
        # The reader knows the node list by its name only.
        (Path(named) / openb.NODES_FILE).symlink_to((folder / nodes).absolute())
        pods_file = (folder / (pods or openb.PODS_FILE)).absolute()
        return openb.read_trace(named, pods_file, epoch_us, cluster=cluster, labels=policy)


@command(app, "events")
def recorded(
    asked: Asked,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="FILE.ndjson or FILE.ndjson.zst.")],
) -> None:
    """Import events in the documented envelope, as `bursar export` writes them.

    Example: bursar import events backup.ndjson.zst
    """
    if not file.is_file():
        raise typer.BadParameter(f"{file} is no file", param_hint="FILE")
    _take_in(asked, str(file), read_lines(file), None)


def _take_in(asked: Asked, name: str, events: Iterable[Event], total: int | None) -> None:
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
    with bar:
        said = bar.add_task("on the bus", total=total)
        booked = bar.add_task("in the ledger", total=total)

        def told(count: int, sequence: int) -> None:
            bar.update(said, completed=count)
            bar.update(booked, completed=sequence, total=max(total or 0, count, sequence))

        # The bus door takes its time to import, which `--help` should not pay.
        from deploy.bootstrap import run
        from deploy.intake import take_in

        taken = run(take_in(asked.settings, events, told))
    _summary(asked, name, taken, time.monotonic() - began)


def _summary(asked: Asked, name: str, taken: Taken, seconds: float) -> None:
    row = {"input": name, **msgspec.structs.asdict(taken), "seconds": round(seconds, 2)}
    footer = ["Ask: bursar report --by team,day    bursar acct    bursar status"]
    write([row], asked.output, title="Imported", footer=footer, one=True)

"""``bursar bench``: rules measured on recorded traces. No ledger and no bus is touched."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.consoles import console
from deploy.cli.rendering.tables import Column, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from deploy.commands.bench_bind import Result, Scene
    from reactors.scheduling.packing.catalogue import Name


class Policy(StrEnum):
    """The packing policies; a test compares them with the scheduler's own list."""

    RANDOM = "Random"
    DOT_PROD = "DotProd"
    CLUSTERING = "GpuClustering"
    PACKING = "GpuPacking"
    BEST_FIT = "BestFit"
    FIRST_FIT = "FirstFit"
    FGD = "FGD"
    LEARNED = "Learned"


class Through(StrEnum):
    """The path of the decisions."""

    MEMORY = "memory"
    BUS = "bus"


_FIELDS = (
    "trace", "policy", "seed", "pods", "failed", "used_milli", "allocation", "seconds", "speed", "cpu_seconds", "digest",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "bind")(bind)


def bind(
    asked: CommandContext,
    folder: Annotated[
        Path, typer.Option("--trace", metavar="DIR", help="Folder with the trace and its arrivals.")
    ],
    policies: Annotated[
        list[Policy] | None, typer.Option("--policy", "-p", help="Again for several; else all.")
    ] = None,
    pods: Annotated[
        str, typer.Option("--pods", metavar="NAME", help="Which pod list of the trace.")
    ] = "default",
    seeds: Annotated[
        list[int] | None,
        typer.Option("--seed", metavar="N", help="Again for several; else all that are given."),
    ] = None,
    through: Annotated[
        Through,
        typer.Option(
            "--through", help="Only the rules, or bus, reactor and ledger in a folder of their own."
        ),
    ] = Through.MEMORY,
) -> None:
    """Allocated cards of each packing policy on the trace openb. More pods arrive than fit.

    Each pod is tried once, in the order of the folder's `arrivals`; pods never end. The figures are the allocated part of all
    cards when the demand so far is 80, 100 and 130 % of them. FGD gets the typical pods of the whole trace, as in its paper;
    Learned knows only the pods that have arrived.

    With --through bus, the scheduling reactor decides in passes and the ledger has all events in the end. Other plugins of its
    profile choose between equal nodes there, so placements differ.

    \b
    bursar bench bind --trace traces/openb --policy FGD --policy Learned
    bursar bench bind --trace traces/openb --pods gpuspec33 -o json    # every percent, and the placements' digest
    """
    from deploy.commands.bench_bind import given_arrivals, read_scene

    given = given_arrivals(folder, pods)
    known = {one.seed for one in given}
    for seed in seeds or ():
        if seed not in known:
            raise typer.BadParameter(
                f"there are arrivals of seeds {', '.join(map(str, sorted(known)))}",
                param_hint="--seed",
            )
    chosen: list[Name] = [one.value for one in policies or list(Policy)]
    results = []
    with _bar() as bar:
        for arrivals in given:
            if seeds and arrivals.seed not in seeds:
                continue
            scene = read_scene(folder, arrivals)
            for policy in chosen:
                task = bar.add_task(f"{policy}, seed {arrivals.seed}", total=len(scene.pods))
                progress = partial(_advance, bar, task)
                results.append(_played(through, scene, policy, progress))
    order: list[str] = list(chosen)
    results.sort(key=lambda one: (order.index(one.policy), one.seed))
    rows = [msgspec.structs.asdict(one) for one in results]
    speed = "A SECOND" if through is Through.BUS else "A CPU-SECOND"
    columns = (*_COLUMNS, Column(speed, lambda row: f"{row['speed']:,}", drop=1, is_figure=True))
    answer(asked, rows, fields=_FIELDS, columns=columns, notes=_means(results))


def _played(through: Through, scene: Scene, policy: Name, arrived: Callable[[int], None]) -> Result:
    if through is Through.MEMORY:
        from deploy.commands.bench_bind import replay

        return replay(scene, policy, arrived)
    # Bus and ledger take a second to import.
    from deploy.commands.bench_bind_bus import replayed
    from deploy.runtime.bootstrap import run

    return run(replayed(scene, policy, arrived))


def _advance(bar: Progress, task: TaskID, completed: int) -> None:
    bar.update(task, completed=completed)


def _bar() -> Progress:
    out = console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )


def _means(results: list[Result]) -> list[str]:
    """The mean of each policy over its seeds."""
    found: dict[str, list[float]] = {}
    for one in results:
        if 100 in one.allocation:
            found.setdefault(one.policy, []).append(one.allocation[100])
    return [
        f"{policy}: {sum(values) / len(values):.2f} % at 100 %, mean of {len(values)} seeds"
        for policy, values in found.items()
        if len(values) > 1
    ]


def _allocated(percent: int) -> Column:
    def cell(row: Row) -> Any:
        value = row["allocation"].get(percent)
        return None if value is None else f"{value:.2f} %"

    return Column(f"AT {percent} %", cell, is_figure=True)


_COLUMNS = (
    field("POLICY"),
    field("SEED", show=str),
    field("PODS", show=lambda value: f"{value:,}"),
    field("FAILED", show=lambda value: f"{value:,}"),
    *(_allocated(percent) for percent in (80, 100, 130)),
)

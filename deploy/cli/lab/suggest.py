"""``bursar lab suggest``: a grid of policies on recorded history, and its front."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bus.clock import SECOND_US
from bus.events.policies import Mode
from deploy.cli.culling import seconds_of
from deploy.cli.lab.comparisons import EXACT, End, Start, amounts, hours_columns, recorded
from deploy.cli.lab.run import Within
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.bars import bar
from deploy.cli.rendering.tables import Column
from deploy.cli.rendering.words import duration

_FIELDS = ("idle_s", "warning_s", "is_front", "stops", "false_culls", "within_s", *EXACT)
#: Most policies of one grid: each reads the whole period again.
MOST = 60


class Goal(StrEnum):
    """The quantity to reduce."""

    GPU = "gpu-idle-hours"
    CORE = "core-idle-hours"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "suggest", of_cluster=True)(suggest)


def suggest(
    asked: CommandContext,
    goal: Annotated[Goal, typer.Option("--goal", help="What shall become less.")] = Goal.GPU,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="All else is as in this settings file; by default as on record.",
        ),
    ] = None,
    idle: Annotated[
        list[str], typer.Option("--idle", metavar="SPAN", help="Idle limits to try.")
    ] = ["15m", "30m", "1h", "2h", "4h"],  # noqa: B006 - the program only reads it
    warning: Annotated[
        list[str], typer.Option("--warning", metavar="SPAN", help="Warnings to try.")
    ] = ["5m", "15m", "1h"],  # noqa: B006 - the same
    start: Start = None,
    end: End = None,
    within: Within = "30m",
    cluster: Cluster = None,
) -> None:
    """Try a grid of idle limits and warnings, and mark the best.

    FRONT `*`: no other policy of the grid saves as much of the goal with as few false culls. Its hours have an interval; the
    other policies have likely hours only. Rules with idle limits or warnings of their own keep them. Assumptions: docs/lab.md.
    Each policy reads the whole period: about half a second of CPU for 20,000 events. --from and fewer limits are faster.

    \b
    bursar lab suggest --goal gpu-idle-hours --from 30d
    bursar lab suggest --idle 30m --idle 90m --warning 10m -o json
    """
    from deploy.queries.lab import Recording, proposed
    from reactors.lab.comparison import front
    from reactors.lab.culling.outcome import outcome, unsure_us

    within_us = seconds_of(within, "--within") * SECOND_US
    grid = [
        (limit, before)
        for limit in sorted({seconds_of(text, "--idle") for text in idle})
        for before in sorted({seconds_of(text, "--warning") for text in warning})
    ]
    if len(grid) > MOST:
        raise typer.BadParameter(f"{len(grid)} policies are more than {MOST}", param_hint="--idle")
    with recorded(asked, cluster, start, end) as (select, name, first, last):
        recording = Recording(select, name, first, last)
        base = recording.policy if policy is None else proposed(policy).culling
        policies: list[tuple[Any, Mode]] = [
            (base.model_copy(update={"idle_seconds": limit, "warning_seconds": before}), "on")
            for limit, before in grid
        ]

        def made(found: Any) -> Any:
            return outcome(
                found.played, by="team", within_us=within_us, unsure_us=unsure_us(found.policy)
            ).total

        with bar("trying policies") as progress:
            found = recording.tried(policies, rules=("later",), progress=progress)
        likely = [made(one) for one in found]
        name = "gpu_milli_s" if goal is Goal.GPU else "cpu_milli_s"
        best = sorted(front([(getattr(one, name).likely, one.false_culls) for one in likely]))
        with bar("trying the best again") as progress:
            whole = recording.tried([policies[place] for place in best], progress=progress)
    sure = {place: made(found) for place, found in zip(best, whole, strict=True)}
    rows = [
        {
            "idle_s": limit, "warning_s": before, "is_front": place in sure, "stops": total.tried,
            "false_culls": total.false_culls, "within_s": within_us // SECOND_US,
            **(amounts(sure[place]) if place in sure else amounts(total, is_sure=False)),
        }
        for place, ((limit, before), total) in enumerate(zip(grid, likely, strict=True))
    ]  # fmt: skip
    rows.sort(key=lambda row: (-row[name], row["false_culls"], row["idle_s"], row["warning_s"]))
    notes = [
        f"events {first + 1:,} to {last:,}; FALSE: used again within {within}",
        f"FRONT: no other policy saves as much of {goal.value} with as few false culls",
    ]
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


_COLUMNS = (
    field("IDLE", "idle_s", show=duration),
    field("WARNING", "warning_s", show=duration),
    Column("FRONT", lambda row: "*" if row["is_front"] else ""),
    Column("STOPS", lambda row: row["stops"], is_figure=True),
    Column("FALSE", lambda row: row["false_culls"], is_figure=True),
    *hours_columns("SAVED"),
)

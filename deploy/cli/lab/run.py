"""``bursar lab``: recorded history under another policy."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US, format_stamp
from bus.errors import TimestampError
from deploy.cli.culling import seconds_of, selecting
from deploy.cli.notes.position import standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.past import sequence_at
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.units import MILLI_HOUR
from deploy.cli.rendering.words import moment
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from reactors.lab.amounts import Amount
    from reactors.lab.culling.outcome import Change, Group

Start = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="EVENT|TIME", help="It is tried from here; by default from the start."
    ),
]
End = Annotated[
    str | None,
    typer.Option("--to", metavar="EVENT|TIME", help="Up to here; by default the newest event."),
]
Within = Annotated[
    str, typer.Option("--within", metavar="SPAN", help="Used again so soon = a false cull.")
]
Svg = Annotated[
    Path | None,
    typer.Option("--svg", metavar="FILE", help="Draw the hours saved into this file, too."),
]

AMOUNTS = ("cpu_milli_s", "gpu_milli_s")
#: Their fields, as exact integers.
EXACT = tuple(f"{name}{end}" for name in AMOUNTS for end in ("", "_low", "_high"))
_GROUPS = (
    "group", "name", "recorded", "tried", "added", "removed", "moved", "false_culls", "within_s",
    *EXACT,
)  # fmt: skip
_CHANGES = (
    "change", "decision", "kind", "namespace", "name", "team", "uid", "reason", "recorded_at", "tried_at",
    "again_at",
)  # fmt: skip


class Saves(Protocol):
    """What a policy saves, in milli-core- and milli-GPU-seconds."""

    @property
    def cpu_milli_s(self) -> Amount:
        """Of cores."""

    @property
    def gpu_milli_s(self) -> Amount:
        """Of GPUs."""


class By(StrEnum):
    """How what is saved is grouped."""

    NAMESPACE = "namespace"
    TEAM = "team"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "run", of_cluster=True)(run)


def run(
    asked: CommandContext,
    policy: Annotated[
        list[Path],
        typer.Option(
            "--policy",
            metavar="FILE",
            help="The policy to try: a settings file with a section culling; again to compare several.",
        ),
    ],
    start: Start = None,
    end: End = None,
    by: Annotated[By, typer.Option("--by", help="Whose hours are added up.")] = By.NAMESPACE,
    within: Within = "30m",
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Each decision that differs, instead of sums.")
    ] = False,
    svg: Svg = None,
    cluster: Cluster = None,
) -> None:
    """What another policy would have decided on what was recorded, and the hours that it saves.

    The reactor that runs live decides again, by the policy in FILE, on the looks at notebooks that are in the history. What
    nobody can know (would a stopped notebook have been used?) is filled in by three rules, so hours are an interval;
    docs/lab.md has the rules. Shadow mode on record stopped nobody: then all that the policy stops is saved.

    \b
    bursar lab --policy two-hours.yaml --from 30d
    bursar lab --policy two-hours.yaml --by team --svg saved.svg
    bursar lab --policy two-hours.yaml --decisions -o csv
    bursar lab --policy one-hour.yaml --policy two-hours.yaml
    """
    from deploy.queries.lab import Recording, proposed
    from reactors.lab.culling.outcome import outcome, unsure_us

    within_us = seconds_of(within, "--within") * SECOND_US
    if len(policy) > 1 and decisions:
        raise typer.BadParameter("--decisions is about one", param_hint="--policy")
    wanted = [proposed(path) for path in policy]
    with reading(asked.place) as connection:
        first, last = between(connection, start, end)
        name = cluster or asked.place.cluster
        recording = Recording(selecting(connection), name, first, last)
        found = recording.tried([(one.culling, one.mode) for one in wanted])
    made = [
        outcome(one.played, by=by.value, within_us=within_us, unsure_us=unsure_us(one.policy))
        for one in found
    ]
    modes = ", ".join(found[0].modes) or "off"
    notes = [f"events {first + 1:,} to {last:,}; on record culling was {modes}"]
    if svg is not None:
        if len(policy) > 1:
            bars = [(path.name, one.total) for path, one in zip(policy, made, strict=True)]
            draw(svg, "Saved by policy", bars)
        else:
            groups = [(one.name or "–", one) for one in made[0].groups]
            draw(svg, f"Saved by {by.value}", [*groups, ("all", made[0].total)])
    if decisions:
        rows = [_change(one) for one in made[0].changes if one.kind != "same"]
        answer(asked, rows, fields=_CHANGES, columns=_CHANGE_COLUMNS, notes=notes)
        return
    notes += [
        "CHANGED: + added, - removed, ~ moved in time; FALSE: used again within " + within,
        "saved: likely, and from least to most; below 0 = spent. The rules are in docs/lab.md",
    ]
    if len(policy) > 1:
        rows = [
            _group(one.total, "policy", within_us) | {"name": str(path)}
            for one, path in zip(made, policy, strict=True)
        ]
        answer(asked, rows, fields=_GROUPS, columns=_group_columns("policy"), notes=notes)
        return
    rows = [_group(one, by.value, within_us) for one in made[0].groups]
    rows.append(_group(made[0].total, "total", within_us))
    answer(asked, rows, fields=_GROUPS, columns=_group_columns(by.value), notes=notes)


def between(connection: sa.Connection, start: str | None, end: str | None) -> tuple[int, int]:
    """The event before the first one and the last one of a period. Raises typer.BadParameter."""
    first = 0 if start is None else sequence_at(connection, start, "--from")
    newest = standing(connection).sequence
    last = newest if end is None else sequence_at(connection, end, "--to")
    if last <= first:
        raise typer.BadParameter("it is before --from", param_hint="--to")
    return first, last


def _group(one: Group, group: str, within_us: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "group": group, "name": one.name, "recorded": one.recorded, "tried": one.tried, "added": one.added,
        "removed": one.removed, "moved": one.moved, "false_culls": one.false_culls,
        "within_s": within_us // SECOND_US,
    }  # fmt: skip
    return row | amounts(one)


def amounts(one: Saves, *, is_sure: bool = True) -> dict[str, int | None]:
    """What is saved, as exact integers; without the interval where not all rules were asked."""
    found: dict[str, int | None] = {}
    for name in AMOUNTS:
        amount: Amount = getattr(one, name)
        low, high = (amount.low, amount.high) if is_sure else (None, None)
        found |= {name: amount.likely, f"{name}_low": low, f"{name}_high": high}
    return found


def _group_columns(by: str) -> tuple[Column, ...]:
    return (
        Column(by.upper(), lambda row: row["name"] or ("all" if row["group"] == "total" else None)),
        Column("STOPS", lambda row: f"{row['recorded']} to {row['tried']}", is_figure=True),
        Column("CHANGED", changed, drop=2),
        Column("FALSE", lambda row: row["false_culls"], is_figure=True),
        Column("GPU-HOURS SAVED", lambda row: hours(row, "gpu_milli_s"), is_figure=True),
        Column("CORE-HOURS SAVED", lambda row: hours(row, "cpu_milli_s"), is_figure=True, drop=1),
    )  # fmt: skip


def changed(row: Row) -> Cell | None:
    """How many decisions were added, removed and moved in time."""
    signs = (("+", "added"), ("-", "removed"), ("~", "moved"))
    changes = [f"{sign}{row[name]}" for sign, name in signs if row[name]]
    return Cell(" ".join(changes), "fixed") if changes else None


def hours(row: Row, name: str, unit: int = MILLI_HOUR) -> Cell:
    """Hours with their interval; ``unit``: so much of the field is one."""
    found = [row[f"{name}{end}"] for end in ("", "_low", "_high")]
    if found[1] == found[2]:
        return Cell(f"{_tenths(found[0] / unit):,.1f}", "figure")
    likely, low, high = (_tenths(value / unit) for value in found)
    return Cell(f"{likely:,.1f} ({low:,.1f} to {high:,.1f})", "figure")


def _tenths(value: float) -> float:
    """Rounded, and 0 without a sign."""
    return round(value, 1) + 0.0


def _change(one: Change) -> dict[str, Any]:
    kind, namespace, name = one.notebook
    return {
        "change": one.kind,
        "decision": one.verb.removeprefix("decision."),
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "team": one.team,
        "uid": one.uid,
        "reason": one.reason,
        "recorded_at": stamp(one.recorded_us),
        "tried_at": stamp(one.tried_us),
        "again_at": stamp(one.again_us),
    }


def stamp(us: int | None) -> str | None:
    """A time as it is written; None for one that has no stamp."""
    try:
        return None if us is None else format_stamp(us)
    except TimestampError:
        # What was imported may say any time.
        return None


_CHANGE_COLUMNS = (
    field("CHANGE"),
    field("DECISION"),
    Column("NOTEBOOK", lambda row: f"{row['namespace']}/{row['name']}"),
    field("RECORDED", "recorded_at", show=moment),
    field("TRIED", "tried_at", show=moment),
    field("AGAIN AT", show=moment, drop=1),
    field("REASON", drop=2),
    field("KIND", wide=True),
    field("TEAM", wide=True),
    field("UID", wide=True),
)


def draw(path: Path, title: str, groups: Sequence[tuple[str, Saves]]) -> None:
    """Draw the hours that are saved by each of the named groups into a file. Raises SettingsError."""
    from deploy.cli.rendering.interval_picture import Bar, picture
    from deploy.errors import SettingsError

    titles = {"gpu_milli_s": "GPU-hours saved", "cpu_milli_s": "Core-hours saved"}
    panels = {
        panel: [Bar(label, *_of(getattr(one, name))) for label, one in groups]
        for name, panel in titles.items()
    }
    try:
        path.write_text(picture(f"{title}: likely, and from least to most", panels))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None
    say(f"drawn: {path}")


def _of(amount: Amount) -> tuple[float, float, float]:
    return amount.low / MILLI_HOUR, amount.likely / MILLI_HOUR, amount.high / MILLI_HOUR

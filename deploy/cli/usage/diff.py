"""``bursar diff``: the changes between two moments of the history."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from bus.kube.crds.keys import key_text
from deploy.cli.notes.position import standing
from deploy.cli.options import CommandContext, command
from deploy.cli.past import place_at
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.units import MILLI_HOUR
from deploy.runtime.ledgers import reading
from projections import reports
from projections.engine.segments.reading import counts, selecting

#: (kind, name, measure) to an amount.
Amounts = dict[tuple[str, str, str], int]

#: Measures shown as hours.
_HOURS = {"cpu_milli_s": "core-hours", "gpu_milli_s": "gpu-hours"}
#: Words of tables for values of files.
_WORDS = {"use": "usage", "said": "recorded", **_HOURS}
_OPEN = "SELECT namespace, count(*) FROM v1_pod_runs WHERE is_open = 1 AND start_s IS NOT NULL GROUP BY 1"
_QUOTAS = "SELECT cluster, tree, quota, key, used FROM v1_quota_usage"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "diff", of_cluster=True)(diff)


def diff(
    asked: CommandContext,
    start: Annotated[
        str,
        typer.Option("--from", metavar="EVENT|TIME", help="The earlier moment, as --at has it."),
    ],
    end: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="EVENT|TIME", help="The later one; by default the newest event."
        ),
    ] = None,
) -> None:
    """Changes between two moments: usage, pods, quotas, events.

    Each moment is answered as it was known then, so a late observation counts at its arrival.

    \b
    bursar diff --from yesterday
    bursar diff --from 9000 --to 9500 -o json
    """
    before = place_at(asked.place, start, "--from")
    after = asked.place if end is None else place_at(asked.place, end, "--to")
    with reading(before) as connection:
        first = standing(connection).sequence
        old = _amounts(connection, before.cluster)
    with reading(after) as connection:
        last = standing(connection).sequence
        new = _amounts(connection, after.cluster)
        if last < first:
            raise typer.BadParameter("it is before --from", param_hint="--to")
        decided = _counted(connection, first, last)
    rows: list[dict[str, Any]] = [
        {
            "what": key[0], "name": key[1], "measure": key[2], "before": old.get(key, 0),
            "after": new.get(key, 0), "change": new.get(key, 0) - old.get(key, 0),
        }
        for key in sorted(old.keys() | new.keys())
        if old.get(key, 0) != new.get(key, 0)
    ]  # fmt: skip
    rows += [
        {"what": "events", "name": type, "measure": "said", "before": None, "after": None, "change": count}
        for type, count in decided
    ]  # fmt: skip
    answer(
        asked, rows, fields=("what", "name", "measure", "before", "after", "change"), columns=_COLUMNS,
        notes=[f"from event {first:,} to event {last:,}"],
    )  # fmt: skip


def _amounts(connection: sa.Connection, cluster: str) -> Amounts:
    """The compared amounts of one ledger. Quotas of ``cluster`` are named without it."""
    stands = standing(connection)
    question = reports.Question(
        by=("team",), as_of_s=stands.observed_s or 0, moments=stands.moments
    )
    found: Amounts = {}
    for row in reports.sums(connection, question):
        for measure in _HOURS:
            found["use", str(row.key[0]), measure] = getattr(row.sums, measure)
    for namespace, count in connection.execute(sa.text(_OPEN)):
        found["pods", namespace, "holding"] = count
    for of, tree, quota, key, used in connection.execute(sa.text(_QUOTAS)):
        name = f"{tree}/{quota}" if of == cluster else f"{of}/{tree}/{quota}"
        found["quota", name, key] = int(used)
    return found


def _counted(connection: sa.Connection, first: int, last: int) -> list[tuple[str, int]]:
    found = Counter[str]()
    for (_, type), number in counts(selecting(connection), after=first, until=last).items():
        found[type] += number
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))


def _amount(name: str) -> Column:
    def cell(row: Row) -> str | None:
        value = row[name]
        if value is None:
            return None
        sign = "+" if name == "change" and value > 0 else ""
        if row["measure"] in _HOURS:
            return f"{sign}{value / MILLI_HOUR:,.2f}"
        if row["what"] == "quota":
            return f"{sign}{key_text(row['measure'], value)}"
        return f"{sign}{value:,}"

    return Column(name.upper(), cell, is_figure=True)


_COLUMNS = (
    field("WHAT", show=lambda what: _WORDS.get(what, what)),
    field("NAME"),
    field("MEASURE", show=lambda name: _WORDS.get(name, name)),
    _amount("before"),
    _amount("after"),
    _amount("change"),
)

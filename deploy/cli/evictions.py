"""``bursar evictions``: who had to go so that a quota was held to again, or would have to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deploy.cli.asking import standing
from deploy.cli.options import Asked, Format, command
from deploy.cli.output import write
from deploy.cli.quotas.listing import footer
from deploy.ledgers import reading

_QUERY = (
    "SELECT decided_at, namespace, name, uid, quota, reason, numbers, is_shadow, result, message, settled_at, id, cluster"
    " FROM v1_evictions ORDER BY decided_at DESC, id LIMIT {most}"
)
_FIELDS = (
    "decided_at", "namespace", "name", "uid", "quota", "reason", "numbers", "is_shadow", "result", "message",
    "settled_at", "id", "cluster",
)  # fmt: skip
_TITLES = ("DECIDED", "POD", "QUOTA", "REASON", "NUMBERS", "RESULT", "MESSAGE", "DECISION")

Most = Annotated[int, typer.Option("--most", min=1, max=100_000, help="The newest so many.")]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "evictions")(evictions)


def evictions(asked: Asked, most: Most = 100) -> None:
    """The newest evictions: which pod, for which quota, why, on which numbers, and what became of it.

    RESULT is shadow where evictions are only recorded. A refusal names the disruption budget that is in the way. `bursar why` takes
    POD, DECISION, or the workload whose pod it was.

    \b
    bursar evictions
    bursar why vision/train-7-x2k4v
    bursar evictions --most 1000 -o json
    """
    with reading(asked.settings) as connection:
        stands = standing(connection)
        found = connection.exec_driver_sql(_QUERY.format(most=most))
        rows: list[dict[str, Any]] = [dict(row._mapping) for row in found]
    if asked.output is not Format.TABLE:
        return write(rows, asked.output, columns=_FIELDS)
    shown = [dict(zip(_TITLES, _cells(row), strict=True)) for row in rows]
    notes = footer(stands.sequence, stands.observed_s)
    notes += ["why one of them: bursar why POD, or bursar why DECISION"] if shown else []
    write(shown, asked.output, columns=_TITLES, footer=notes)


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    result = "shadow" if row["is_shadow"] else row["result"] or "outstanding"
    pod = f"{row['namespace']}/{row['name']}"
    return (
        row["decided_at"], pod, row["quota"], row["reason"], row["numbers"], result, row["message"],
        row["id"],
    )  # fmt: skip

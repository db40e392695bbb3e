"""``bursar evictions``: pods evicted to enforce a quota, and pods still to evict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import moment, words
from deploy.hints import hint
from deploy.runtime.ledgers import clusters, reading

if TYPE_CHECKING:
    from projections.quota_trees.queries import Select
    from reactors.engine.replica import Blocked

_QUERY = (
    "SELECT decided_at, namespace, name, uid, quota, reason, numbers, is_shadow, result, message, settled_at, id, cluster,"
    " beneficiary"
    " FROM v1_evictions ORDER BY decided_at DESC, id LIMIT {most}"
)
_FIELDS = (
    "decided_at", "namespace", "name", "uid", "quota", "reason", "numbers", "is_shadow", "result", "message",
    "settled_at", "id", "cluster", "beneficiary",
)  # fmt: skip

#: Result of a due pod before its eviction.
NOT_YET = "not yet"

Most = Annotated[int, typer.Option("--most", min=1, max=100_000, help="The newest so many.")]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "evictions", question=True)(evictions)


def evictions(asked: CommandContext, most: Most = 100) -> None:
    """The newest evictions: pod, quota, reason, numbers and result.

    RESULT is `shadow` where evictions are only recorded. It is `not yet` for a pod whose eviction is due and delayed: MESSAGE
    has the cause and the end of the delay. A refusal names the disruption budget. `bursar why` takes POD, DECISION (-o wide
    shows it, and the numbers), or the workload of the pod.

    \b
    bursar evictions
    bursar why vision/train-7-x2k4v
    bursar evictions --most 1000 -o json
    """
    from bus.events.decisions import Evict
    from deploy.runtime.blocked import blocked

    with reading(asked.place) as connection:
        stands = standing(connection)
        due = [
            one
            for name in clusters(connection)
            for one in blocked(_select(connection), name, stands.moment_s(name) * SECOND_US)
            if isinstance(one.decision, Evict)
        ]
        found = connection.exec_driver_sql(_QUERY.format(most=most))
        rows: list[dict[str, Any]] = [dict(row._mapping) for row in found]
    rows[:0] = [_not_yet(one) for one in due[:most]]
    notes = footer(stands.sequence, stands.observed_s) + _meanings(due)
    notes += [f"why one of them: {hint('why POD')}, or {hint('why DECISION')}"] if rows else []
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def _result(row: Row) -> str:
    is_shadow = row["is_shadow"] and row["result"] != NOT_YET
    return "shadow" if is_shadow else row["result"] or "outstanding"


_COLUMNS = (
    field("DECIDED", "decided_at", show=moment),
    Column("POD", lambda row: f"{row['namespace']}/{row['name']}"),
    field("QUOTA"),
    field("REASON", drop=1),
    Column("RESULT", _result),
    field("MESSAGE", show=words),
    field("NUMBERS", wide=True, show=words),
    field("DECISION", "id", wide=True),
    field("UID", wide=True),
)


def _not_yet(one: Blocked) -> dict[str, Any]:
    """The row of a due pod before its eviction, with the obstacle."""
    from reactors.engine.reasons import short

    decision, target = one.decision, one.decision.target
    known = {
        "namespace": target.namespace, "name": target.name, "uid": target.uid,
        "quota": decision.quota, "reason": decision.reason,
        "numbers": json.dumps(decision.numbers), "is_shadow": int(decision.is_shadow),
        "result": NOT_YET, "message": short(one),
    }  # fmt: skip
    return dict.fromkeys(_FIELDS) | known


def _meanings(due: list[Blocked]) -> list[str]:
    """The obstacles of due pods before their eviction, a line each."""
    from reactors.engine.reasons import sentence

    reasons = sorted({one.reason for one in due})
    return [f"{reason.replace('_', ' ')}: {sentence(reason)}" for reason in reasons]


def _select(connection: sa.Connection) -> Select:
    return lambda query: [tuple(row) for row in connection.execute(query)]

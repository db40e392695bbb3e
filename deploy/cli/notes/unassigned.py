"""Pods without a team: booked to `unassigned`, with a note below all figures, so that users notice.

Source: docs/wrong-input.md A25; docs/accounting.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from deploy.cli.rendering.escapes import inert
from deploy.cli.rendering.units import MILLI_HOUR
from projections.pod_runs import UNASSIGNED, pod_runs

if TYPE_CHECKING:
    from projections import reports

#: Namespaces in a line; it counts the rest.
NAMED = 3


def holding(connection: sa.Connection) -> dict[str, Any]:
    """The number of pods with current holdings but without a team, and their namespaces, the most pods first."""
    runs = pod_runs.c
    pods = sa.func.count().label("pods")
    rows = connection.execute(
        sa.select(runs.namespace, pods)
        .where(runs.end_s.is_(None), runs.start_s.is_not(None), runs.team == UNASSIGNED)
        .group_by(runs.namespace)
        .order_by(pods.desc(), runs.namespace)
    ).all()
    return {"pods": sum(row.pods for row in rows), "namespaces": [row.namespace for row in rows]}


def holding_line(found: dict[str, Any]) -> str:
    """:func:`holding` for people."""
    if not found["pods"]:
        return "every running pod has a team"
    return f"{found['pods']:,} pods of {_names(found['namespaces'])} name no team: label them or their namespaces"


def note(connection: sa.Connection, question: reports.Question) -> list[str]:
    """The line below a report: its figures without a team; empty if there are none."""
    if question.where.get("team", UNASSIGNED) != UNASSIGNED:
        return []
    # `bursar status` names no figures, and need not import how they are summed.
    from projections import reports

    where = {**question.where, "team": UNASSIGNED}
    rows = reports.sums(
        connection, msgspec.structs.replace(question, by=("namespace",), where=where)
    )
    if not rows:
        return []
    cpu = sum(row.sums.cpu_milli_s for row in rows) / MILLI_HOUR
    gpu = sum(row.sums.gpu_milli_s for row in rows) / MILLI_HOUR
    names = _names([str(row.key[0]) for row in rows])
    return [
        f"booked to `{UNASSIGNED}`: {cpu:,.2f} core-hours and {gpu:,.2f} GPU-hours of {names},"
        " where no team is named"
    ]


def _names(names: Sequence[str]) -> str:
    rest = len(names) - NAMED
    more = f" and {rest:,} more namespaces" if rest > 0 else ""
    return ", ".join(inert(name) for name in names[:NAMED]) + more

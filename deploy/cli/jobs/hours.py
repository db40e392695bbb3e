"""``bursar jobs hours``: the holdings of training jobs, by job, replica, attempt, cause or node, and the cost of restarts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from deploy.cli.notes.position import footer, standing
from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.answers import answer, count, field
from deploy.cli.rendering.escapes import inert
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.units import MILLI_HOUR
from deploy.cli.rendering.words import words
from deploy.queries import job_nodes
from deploy.queries.job_nodes import NodeFailures
from deploy.runtime.ledgers import reading
from projections.engine.segments.reading import selecting


class HoursBy(StrEnum):
    """The groups for sums of hours."""

    JOB = "job"
    REPLICA = "replica"
    ATTEMPT = "attempt"
    CAUSE = "cause"
    NODE = "node"


_JOB = ("cluster", "namespace", "job", "job_uid")
#: The columns of `v1_attempts` for a group.
_GROUPS = {
    HoursBy.JOB: _JOB,
    HoursBy.REPLICA: (*_JOB, "replica"),
    HoursBy.ATTEMPT: (*_JOB, "replica", "slot", "attempt", "name", "node", "cause"),
    HoursBy.CAUSE: ("cluster", "cause"),
    HoursBy.NODE: ("cluster", "node"),
}
_AMOUNTS = ("cpu_milli_s", "gpu_milli_s")
_SUMS = ("attempts", "restarts", *_AMOUNTS, *(f"lost_{name}" for name in _AMOUNTS))


def register(app: typer.Typer) -> None:
    """Add the command to ``jobs``."""
    command(app, "hours", question=True)(hours)


def hours(
    asked: CommandContext,
    by: Annotated[HoursBy, typer.Option("--by", help="What hours are summed by.")] = HoursBy.JOB,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Jobs of one namespace.")
    ] = None,
) -> None:
    """Hours of training jobs, and hours that restarts lost.

    RESTARTS counts pods that were replaced. LOST is what those pods had held, as their work began again. Causes: `exit CODE`,
    `node lost`, `evicted`, `deleted`, … The figures are sums of `v1_attempts`. --by node counts the failed pods (FAILED) and
    failed jobs (FAILED-JOBS of JOBS) of the last 30 days, in percent (RATE), and compares them with the other nodes (TIMES). A
    node whose jobs fail more often than by chance comes first; a line below names it.

    \b
    bursar jobs hours
    bursar jobs hours --by cause
    bursar jobs hours --by node
    bursar jobs hours --by attempt -n vision -o json
    """
    groups = _GROUPS[by]
    where = " WHERE namespace = :namespace" if namespace is not None else ""
    # Only replaced pods have a cause.
    where += (" AND" if where else " WHERE") + " is_lost = 1" if by is HoursBy.CAUSE else ""
    sums = ", ".join(
        f"CAST(SUM({text}) AS bigint) AS {name}"
        for name, text in (
            ("attempts", "1"), ("restarts", "is_lost"), *((name, name) for name in _AMOUNTS),
            *((f"lost_{name}", f"{name} * is_lost") for name in _AMOUNTS),
        )
    )  # fmt: skip
    keys = ", ".join(groups)
    query = (
        f"SELECT {keys}, {sums} FROM v1_attempts{where} GROUP BY {keys}"
        " ORDER BY lost_gpu_milli_s DESC, lost_cpu_milli_s DESC, gpu_milli_s DESC, cpu_milli_s DESC, "
        + keys
    )
    given = {} if namespace is None else {"namespace": namespace}
    with reading(asked.place) as connection:
        stands = standing(connection)
        found = connection.execute(sa.text(query), given)
        rows: list[dict[str, Any]] = [dict(row._mapping) for row in found]
        nodes = []
        if by is HoursBy.NODE:
            nodes = job_nodes.failures(selecting(connection), stands.observed_s, namespace)
            rows = _with_failures(rows, nodes)
    answer(
        asked,
        rows,
        fields=(*groups, *_SUMS, *(_FAILURES if by is HoursBy.NODE else ())),
        columns=(
            *(_COLUMNS[name] for name in groups),
            *_FIGURES,
            *(_FAILING if by is HoursBy.NODE else ()),
        ),
        notes=[*map(inert, job_nodes.notes(nodes)), *footer(stands.sequence, stands.observed_s)],
    )


def _with_failures(rows: list[dict[str, Any]], nodes: list[NodeFailures]) -> list[dict[str, Any]]:
    """The rows of nodes with their failures, outliers first."""
    known = {(one.cluster, one.node): one for one in nodes}
    found = []
    for row in rows:
        one = known.get((row["cluster"], row["node"]))
        found.append(
            {
                **row,
                "failures": one.failures if one else 0,
                "jobs": one.jobs if one else 0,
                "failed_jobs": one.failed_jobs if one else 0,
                "failed_ratio": one.failed_ratio if one else None,
                "other_ratio": one.other_ratio if one else None,
                "is_outlier": one is not None and one.is_outlier,
            }
        )
    return sorted(found, key=lambda row: not row["is_outlier"])


def _hours(title: str, name: str, *, drop: int = 0) -> Column:
    def cell(row: Row) -> str:
        return f"{row[name] / MILLI_HOUR:,.1f}"

    return Column(title, cell, drop=drop, is_figure=True)


_COLUMNS = {
    "cluster": field("CLUSTER", wide=True),
    "namespace": field("NAMESPACE"),
    "job": field("JOB"),
    "job_uid": field("JOB-UID", wide=True),
    "replica": field("REPLICA"),
    "slot": field("SLOT"),
    "attempt": field("ATTEMPT"),
    "name": field("POD", "name", wide=True),
    "node": field("NODE", drop=6),
    "cause": field("CAUSE", show=words),
}
_FIGURES = (
    count("PODS", "attempts", drop=5),
    count("RESTARTS", "restarts", drop=2),
    _hours("CORE-H", "cpu_milli_s", drop=4),
    _hours("GPU-H", "gpu_milli_s", drop=3),
    _hours("LOST-CORE-H", "lost_cpu_milli_s", drop=1),
    _hours("LOST-GPU-H", "lost_gpu_milli_s"),
)
_FAILURES = ("failures", "jobs", "failed_jobs", "failed_ratio", "other_ratio", "is_outlier")


def _rate(row: Row) -> str:
    return "" if row["failed_ratio"] is None else f"{100 * row['failed_ratio']:.0f} %"


def _times(row: Row) -> str:
    """The failure ratio to the other nodes; empty if no job failed there."""
    return (
        f"{row['failed_ratio'] / row['other_ratio']:,.1f}"
        if row["other_ratio"] and row["jobs"]
        else ""
    )


_FAILING = (
    count("FAILED", "failures"),
    count("JOBS", "jobs", drop=1),
    count("FAILED-JOBS", "failed_jobs"),
    Column("RATE", _rate, is_figure=True),
    Column("TIMES", _times, is_figure=True, drop=1),
)

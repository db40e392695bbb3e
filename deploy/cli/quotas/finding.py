"""Workloads by the names in use: a uid, ``NAMESPACE/NAME`` or ``KIND/NAMESPACE/NAME``."""

from __future__ import annotations

import json

import msgspec
import sqlalchemy as sa

from bus.events.pods import Owner
from deploy.cli.filters import near
from projections import pod_runs, timelines, workloads
from projections.quota_trees.declared import declared_quotas


class Found(msgspec.Struct, frozen=True):
    """One object, there or gone, as it was seen last."""

    uid: str
    kind: str
    namespace: str
    name: str
    vanished: bool
    owner: Owner | None = None
    labels: dict[str, str] = {}
    demand: dict[str, int] = {}
    #: A pod without a node.
    waits: bool = False


def find(connection: sa.Connection, cluster: str, text: str) -> list[Found]:
    """The objects that ``text`` may mean, existing ones first."""
    table, runs = workloads.workloads, pod_runs.pod_runs
    kind, namespace, name = _parts(text)
    rows = connection.execute(
        sa.select(table)
        .where(table.c.cluster == cluster, _is_meant(table, text, namespace, name))
        .order_by(table.c.vanished, table.c.sequence.desc())
    )
    found = [_workload(workloads.codec.row(tuple(row))) for row in rows]
    pods = connection.execute(
        sa.select(runs)
        .where(runs.c.cluster == cluster, _is_meant(runs, text, namespace, name))
        .order_by(runs.c.end_s.is_not(None), runs.c.created_s.desc())
    )
    found += map(_pod, pod_runs.stored(map(tuple, pods), ()))
    return [one for one in found if kind in ("", one.kind.lower())]


def names(connection: sa.Connection, cluster: str, text: str) -> set[str]:
    """NAMESPACE/NAME of workloads and pods, and the names of quotas, as suggestions for ``text``."""
    found: set[str] = set()
    name = _parts(text)[-1]
    for table in (workloads.workloads, pod_runs.pod_runs):
        rows = near(connection, table, name, table.c.cluster == cluster)
        found |= {f"{row.namespace}/{row.name}" for row in rows}
    there = sa.select(declared_quotas.c.quota).where(declared_quotas.c.cluster == cluster)
    return found | set(connection.scalars(there))


def _parts(text: str) -> tuple[str, str, str]:
    """(kind in lower case or "", namespace or "", name)."""
    *before, name = text.split("/")
    return (before[-2].lower() if len(before) > 1 else "", before[-1] if before else "", name)


def _is_meant(table: sa.Table, text: str, namespace: str, name: str) -> sa.ColumnElement[bool]:
    if not namespace:
        return table.c.uid == text
    return sa.and_(table.c.namespace == namespace, table.c.name == name)


def _workload(row: workloads.WorkloadHistory) -> Found:
    ask = row.asked.ask if row.asked else None
    is_gone = timelines.is_gone(row.history, row.gone)
    return Found(
        row.uid, row.kind, row.namespace, row.name, is_gone, row.owner,
        ask.labels if ask else {}, ask.demand if ask else {},
    )  # fmt: skip


def _pod(row: pod_runs.PodRun) -> Found:
    pod = row.pod
    return Found(
        pod.uid, "Pod", pod.namespace, pod.name, row.run.end_s is not None, pod.owner,
        json.loads(pod.labels), waits=row.run.start_s is None and row.run.end_s is None,
    )  # fmt: skip

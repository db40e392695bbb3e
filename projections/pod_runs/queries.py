"""Queries on stored pods, by uid and by the changes that may touch them.

Every function takes a reader's ``select`` (or returns a query for it): nothing here holds a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from bus.clock import SECOND_US
from projections.lists.parts import PodListPart
from projections.pod_runs.shape import (
    PodRun,
    held_segments,
    pod_runs,
    stored,
)
from projections.workloads import workloads

if TYPE_CHECKING:
    from projections.engine.changes import RowReader

Select = Callable[..., list[tuple[Any, ...]]]


def by_uid(reader: RowReader, uids: Sequence[str]) -> list[PodRun]:
    """The stored pods of these uids, with their segments."""
    rows = reader.rows(pod_runs, [(uid,) for uid in uids])
    if not rows:
        return []
    return stored(rows, reader.rows(held_segments, [(row[0],) for row in rows]))


def held_at(select: Select, uid: str, at_us: int) -> tuple[int, int] | None:
    """The milli-cores and milli-cards of a pod at a time, or the last ones before; None for a pod never on a node."""
    columns = held_segments.c
    of = sa.select(columns.cpu_milli, columns.gpu_milli).where(columns.uid == uid)
    before = of.where(columns.start_s <= at_us // SECOND_US).order_by(columns.start_s.desc())
    found = select(before.limit(1)) or select(of.order_by(columns.start_s).limit(1))
    return (found[0][0], found[0][1]) if found else None


def live(select: Select) -> list[PodRun]:
    """Every open pod."""
    is_live = pod_runs.c.end_s.is_(None)
    rows = select(sa.select(pod_runs).where(is_live))
    uids = sa.select(pod_runs.c.uid).where(is_live)
    return stored(rows, select(sa.select(held_segments).where(held_segments.c.uid.in_(uids))))


#: Open holdings of pods, by team: team, milli-cores, MiB, milli-cards, pods.
HELD_BY_TEAM = (
    sa.select(
        held_segments.c.team,
        sa.func.sum(held_segments.c.cpu_milli),
        sa.func.sum(held_segments.c.memory_mib),
        sa.func.sum(held_segments.c.gpu_milli),
        sa.func.count(),
    )
    .select_from(pod_runs.join(held_segments, pod_runs.c.uid == held_segments.c.uid))
    # By open pods, as these have an index.
    .where(pod_runs.c.end_s.is_(None), held_segments.c.end_s.is_(None))
    .group_by(held_segments.c.team)
)

#: Uids of pods of a (``cluster``, ``name`` of a namespace) with holdings or waiting from second ``since`` on.
OF_NAMESPACE = sa.select(pod_runs.c.uid).where(
    pod_runs.c.cluster == sa.bindparam("cluster"),
    pod_runs.c.namespace == sa.bindparam("name"),
    sa.or_(pod_runs.c.end_s.is_(None), pod_runs.c.end_s >= sa.bindparam("since")),
)

#: Uids of pods with holdings on a (``cluster``, ``name`` of a node) after second ``since``, or bound to it with an
#: end, from ``since`` on, before any holding.
ON_NODE = sa.union(
    sa.select(held_segments.c.uid).where(
        held_segments.c.cluster == sa.bindparam("cluster"),
        held_segments.c.node == sa.bindparam("name"),
        sa.or_(held_segments.c.end_s.is_(None), held_segments.c.end_s > sa.bindparam("since")),
    ),
    sa.select(pod_runs.c.uid).where(
        pod_runs.c.cluster == sa.bindparam("cluster"),
        pod_runs.c.node == sa.bindparam("name"),
        pod_runs.c.idle.is_not(None),
        pod_runs.c.end_s >= sa.bindparam("since"),
    ),
)


def of_quotas(cluster: str, since: int | None) -> sa.Select[Any]:
    """Uids of pods of a cluster with holdings or waiting from second ``since`` on, the first second of a quota's rule."""
    return sa.select(pod_runs.c.uid).where(pod_runs.c.cluster == cluster, _after(pod_runs, since))


def _after(table: sa.Table, since: int | None) -> sa.ColumnElement[bool]:
    return sa.or_(table.c.end_s.is_(None), table.c.end_s >= (since or 0))


#: Pods with a controller in ``uids``: their uids, and the controller's.
PODS_BELOW = sa.select(pod_runs.c.uid, pod_runs.c.owner_uid).where(
    pod_runs.c.owner_uid.in_(sa.bindparam("uids", expanding=True))
)

#: Workloads with a controller in ``uids``: their uids, and the controller's.
WORKLOADS_BELOW = sa.select(workloads.c.uid, workloads.c.owner_uid).where(
    workloads.c.owner_uid.in_(sa.bindparam("uids", expanding=True))
)


def vanished(select: Select, part: PodListPart) -> list[str]:
    """Uids in the range of ``part`` with an end known only from a list."""
    query = sa.select(pod_runs.c.uid).where(
        pod_runs.c.vanished == 1, pod_runs.c.cluster == part.cluster, pod_runs.c.uid >= part.first
    )
    if part.until:
        query = query.where(pod_runs.c.uid < part.until)
    return [row[0] for row in select(query)]


def newest_observed(select: Select) -> dict[str, int]:
    """By cluster: the observation time of the newest end by observation."""
    column = pod_runs.c.observed_us
    query = sa.select(pod_runs.c.cluster, sa.func.max(column)).where(column.is_not(None))
    return {row[0]: row[1] for row in select(query.group_by(pod_runs.c.cluster))}


def observed(select: Select, cluster: str, since_us: int, until_us: int | None) -> list[str]:
    """Uids of pods with an end by an observation in [since_us, until_us]."""
    query = sa.select(pod_runs.c.uid).where(
        pod_runs.c.cluster == cluster, pod_runs.c.observed_us >= since_us
    )
    if until_us is not None:
        query = query.where(pod_runs.c.observed_us <= until_us)
    return [row[0] for row in select(query)]

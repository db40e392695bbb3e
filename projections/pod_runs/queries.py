"""Queries on stored pods, by uid and by the changes that may touch them, and on the parts of complete lists.

Every function takes a reader's ``select`` (or returns a query for it): nothing here holds a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa

from bus.clock import SECOND_US
from bus.events.pods import PodsListed
from projections.engine.segments.reading import event_at
from projections.engine.tables import events
from projections.pod_runs.list_rows import pod_beats
from projections.pod_runs.lists import Part
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

#: A cluster, and uids [first, until) of it; until "" is no upper end.
Extent = tuple[str, str, str]


def by_uid(reader: RowReader, uids: Sequence[str]) -> list[PodRun]:
    """The pods of these uids that are stored, with their segments."""
    rows = reader.rows(pod_runs, [(uid,) for uid in uids])
    if not rows:
        return []
    return stored(rows, reader.rows(held_segments, [(row[0],) for row in rows]))


def held_at(select: Select, uid: str, at_us: int) -> tuple[int, int] | None:
    """The milli-cores and milli-cards that a pod holds at a time, or held last before; None where it never held a node."""
    columns = held_segments.c
    of = sa.select(columns.cpu_milli, columns.gpu_milli).where(columns.uid == uid)
    before = of.where(columns.start_s <= at_us // SECOND_US).order_by(columns.start_s.desc())
    found = select(before.limit(1)) or select(of.order_by(columns.start_s).limit(1))
    return (found[0][0], found[0][1]) if found else None


def live(select: Select) -> list[PodRun]:
    """Every pod that is not ended."""
    is_live = pod_runs.c.end_s.is_(None)
    rows = select(sa.select(pod_runs).where(is_live))
    uids = sa.select(pod_runs.c.uid).where(is_live)
    return stored(rows, select(sa.select(held_segments).where(held_segments.c.uid.in_(uids))))


#: What pods hold that are open, by team: team, milli-cores, MiB, milli-cards, pods.
HELD_BY_TEAM = (
    sa.select(
        held_segments.c.team,
        sa.func.sum(held_segments.c.cpu_milli),
        sa.func.sum(held_segments.c.memory_mib),
        sa.func.sum(held_segments.c.gpu_milli),
        sa.func.count(),
    )
    .select_from(pod_runs.join(held_segments, pod_runs.c.uid == held_segments.c.uid))
    # By the pods that are open, which have an index.
    .where(pod_runs.c.end_s.is_(None), held_segments.c.end_s.is_(None))
    .group_by(held_segments.c.team)
)

#: Uids of pods of a (``cluster``, ``name`` of a namespace) that held or waited from second ``since`` on.
OF_NAMESPACE = sa.select(pod_runs.c.uid).where(
    pod_runs.c.cluster == sa.bindparam("cluster"),
    pod_runs.c.namespace == sa.bindparam("name"),
    sa.or_(pod_runs.c.end_s.is_(None), pod_runs.c.end_s >= sa.bindparam("since")),
)

#: Uids of pods that held on a (``cluster``, ``name`` of a node) after second ``since``, or were bound to it and ended, from
#: ``since`` on, before they held.
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
    """Uids of pods of a cluster that held or waited from second ``since`` on, from which a rule of a quota holds."""
    return sa.select(pod_runs.c.uid).where(pod_runs.c.cluster == cluster, _after(pod_runs, since))


def _after(table: sa.Table, since: int | None) -> sa.ColumnElement[bool]:
    return sa.or_(table.c.end_s.is_(None), table.c.end_s >= (since or 0))


#: Pods whose controller is one of ``uids``: their uids, and the controller's.
PODS_BELOW = sa.select(pod_runs.c.uid, pod_runs.c.owner_uid).where(
    pod_runs.c.owner_uid.in_(sa.bindparam("uids", expanding=True))
)

#: Workloads whose controller is one of ``uids``: their uids, and the controller's.
WORKLOADS_BELOW = sa.select(workloads.c.uid, workloads.c.owner_uid).where(
    workloads.c.owner_uid.in_(sa.bindparam("uids", expanding=True))
)


def vanished(select: Select, part: Part) -> list[str]:
    """Uids that ``part`` covers whose end is known only from a list."""
    query = sa.select(pod_runs.c.uid).where(
        pod_runs.c.vanished == 1, pod_runs.c.cluster == part.cluster, pod_runs.c.uid >= part.first
    )
    if part.until:
        query = query.where(pod_runs.c.uid < part.until)
    return [row[0] for row in select(query)]


def newest_parts(select: Select, lists: sa.Table, count: int) -> list[Part]:
    """The newest parts of complete lists, oldest first."""
    query = sa.select(lists).order_by(lists.c.time_us.desc(), lists.c.first_uid.desc())
    return [with_uids(select, part_of(row)) for row in reversed(select(query.limit(count)))]


def same_part(select: Select, lists: sa.Table, part: Part) -> Part | None:
    """The stored part of the same moment and range; None where there is none."""
    query = sa.select(lists).where(
        lists.c.cluster == part.cluster,
        lists.c.time_us == part.time_us,
        lists.c.first_uid == part.first,
    )
    found = select(query)
    return with_uids(select, part_of(found[0])) if found else None


def parts_between(
    select: Select, lists: sa.Table, of: Extent, since_us: int, until_us: int, count: int
) -> list[Part]:
    """The first ``count`` parts, without their uids, that cover any of an extent and were asked for after ``since_us`` and
    before ``until_us``; newest first with a negative count.
    """
    cluster, first, until = of
    values = {"cluster": cluster, "since": since_us, "until": until_us, "first": first, "count": abs(count)}  # fmt: skip
    query = _between(lists, has_end=bool(until), is_newest=count < 0)
    found = select(query, values | {"end": until} if until else values)
    return [part_of(row) for row in found]


@lru_cache
def _between(lists: sa.Table, *, has_end: bool, is_newest: bool) -> sa.Select[Any]:
    """Made once: to make it takes as long as to ask."""
    query = sa.select(lists).where(
        lists.c.cluster == sa.bindparam("cluster"),
        lists.c.time_us > sa.bindparam("since"),
        lists.c.time_us < sa.bindparam("until"),
        sa.or_(lists.c.until_uid == "", lists.c.until_uid > sa.bindparam("first")),
        *([lists.c.first_uid < sa.bindparam("end")] if has_end else []),
    )
    order = [lists.c.time_us, lists.c.first_uid]
    query = query.order_by(*([one.desc() for one in order] if is_newest else order))
    return query.limit(sa.bindparam("count", type_=sa.Integer()))


def part_of(row: tuple[Any, ...]) -> Part:
    """A part as it is stored, without its uids."""
    return Part(row[0], row[1], row[2], row[3], row[4], row[5], frozenset())


def with_uids(select: Select, part: Part) -> Part:
    """The part with the uids that its event has."""
    found = select(sa.select(events.c.body).where(events.c.sequence == part.sequence))
    if found:
        body = found[0][0]
    else:
        # The archive was trimmed: a segment has it.
        body = there.body if (there := event_at(select, part.sequence)) is not None else b""
    uids = frozenset(_listed.decode(body).uids)
    return msgspec.structs.replace(part, uids=uids)


def has_list(select: Select, lists: sa.Table, cluster: str, since_us: int, until_us: int) -> bool:
    """Whether a list was asked for in [since_us, until_us]."""
    query = sa.select(lists.c.time_us).where(
        lists.c.cluster == cluster, lists.c.time_us >= since_us, lists.c.time_us <= until_us
    )
    return bool(select(query.limit(1)))


def newest_observed(select: Select) -> dict[str, int]:
    """By cluster: when the newest end that rests on an observation was observed."""
    column = pod_runs.c.observed_us
    query = sa.select(pod_runs.c.cluster, sa.func.max(column)).where(column.is_not(None))
    return {row[0]: row[1] for row in select(query.group_by(pod_runs.c.cluster))}


def observed(select: Select, cluster: str, since_us: int, until_us: int | None) -> list[str]:
    """Uids of pods whose end rests on an observation in [since_us, until_us]."""
    query = sa.select(pod_runs.c.uid).where(
        pod_runs.c.cluster == cluster, pod_runs.c.observed_us >= since_us
    )
    if until_us is not None:
        query = query.where(pod_runs.c.observed_us <= until_us)
    return [row[0] for row in select(query)]


def newest_beats(select: Select, count: int) -> list[tuple[str, int]]:
    """(cluster, time) of the newest words that the source of pods is told, oldest first."""
    query = sa.select(pod_beats.c.cluster, pod_beats.c.time_us).order_by(pod_beats.c.time_us.desc())
    return [(row[0], row[1]) for row in reversed(select(query.limit(count)))]


def beat_before(select: Select, cluster: str, before_us: int) -> int | None:
    """The newest such word of a cluster before ``before_us``."""
    found: int | None = select(_BEAT_BEFORE, {"cluster": cluster, "us": before_us})[0][0]
    return found


_BEAT_BEFORE = sa.select(sa.func.max(pod_beats.c.time_us)).where(
    pod_beats.c.cluster == sa.bindparam("cluster"), pod_beats.c.time_us < sa.bindparam("us")
)


def beat_after(select: Select, cluster: str, after_us: int) -> int | None:
    """The first such word of a cluster after ``after_us``."""
    query = sa.select(sa.func.min(pod_beats.c.time_us)).where(
        pod_beats.c.cluster == cluster, pod_beats.c.time_us > after_us
    )
    found: int | None = select(query)[0][0]
    return found


_listed = msgspec.json.Decoder(PodsListed)

"""Queries on stored parts of complete lists, and on heartbeats of the source of pods.

Every function takes a reader's ``select``: nothing here holds a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.events.pods import PodsListed
from projections.engine.segments.reading import event_at
from projections.engine.tables import events
from projections.lists.parts import PodListPart
from projections.lists.rows import pod_beats

Select = Callable[..., list[tuple[Any, ...]]]

#: A cluster, and uids [first, until) of it; until "" is no upper end.
Extent = tuple[str, str, str]


def newest_parts(select: Select, lists: sa.Table, count: int) -> list[PodListPart]:
    """The newest parts of complete lists, oldest first."""
    query = sa.select(lists).order_by(lists.c.time_us.desc(), lists.c.first_uid.desc())
    return [with_uids(select, part_of(row)) for row in reversed(select(query.limit(count)))]


def same_part(select: Select, lists: sa.Table, part: PodListPart) -> PodListPart | None:
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
) -> list[PodListPart]:
    """The first ``count`` parts, without their uids, over any of an extent and requested after ``since_us`` and
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


def part_of(row: tuple[Any, ...]) -> PodListPart:
    """A part as it is stored, without its uids."""
    cluster, time_us, first, until, version, sequence = row
    return PodListPart(cluster, time_us, first, until, version, sequence, frozenset())


def with_uids(select: Select, part: PodListPart) -> PodListPart:
    """The part with the uids from its event."""
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


def newest_beats(select: Select, count: int) -> list[tuple[str, int]]:
    """(cluster, time) of the newest heartbeats of the source of pods, oldest first."""
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

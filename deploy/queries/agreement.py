"""Compares shadow decisions with the real events: agreement by reason, with hours. Reads the ledger, changes nothing.

Each decision has one result:

- *agreed*: the installed controller, or the owner, did the same: the pod ended within an hour, the pod is on the chosen node or
  an equally good one, the operator took the step, the refused object never came.
- *alone*: only Bursar would have acted, and without harm: the
  notebook ran on unused, or the pod is on another fitting node.
- *against*: the decision would have done harm: the notebook was used again within an hour, a pod to evict ran on, the pod
  is on a refused node, the operator took another step, the refused object came and ran.
- *open*: it is too early to tell.

Source: docs/operating.md ("Before you switch a reactor on").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.clock import SECOND_US
from bus.events.decisions import Cull, Evict
from bus.events.notebooks import NotebookSampled
from projections import activity
from projections.decisions import decisions
from projections.pod_runs import held_segments, pod_runs
from projections.quota_trees.decisions import admissions
from projections.quota_trees.queries import Select, archived, facts

#: So long after a decision others may still do the same.
WITHIN_S = 3_600

_BINDS = sa.table(
    "v1_bind_decisions",
    *map(
        sa.column, ("cluster", "uid", "profile", "agreement", "outcome", "is_shadow", "decided_s")
    ),
)
_PLACED = {
    "same": "agreed", "equal": "agreed", "lower": "alone", "unrecorded": "alone", "refused": "against",
    "unplaced": "against", "waiting": "open",
}  # fmt: skip


class Compared(msgspec.Struct, frozen=True):
    """A shadow decision and its result. Milli-core- and milli-GPU-seconds of its pods from then on."""

    reactor: str
    reason: str
    result: str
    at_s: int
    cpu_milli_s: int = 0
    gpu_milli_s: int = 0
    count: int = 1


def compared(select: Select, cluster: str, since_s: int, now_s: int) -> Iterator[Compared]:
    """All decisions of a cluster since a second, except steps of jobs: these are counted on arrival."""
    yield from _stops(select, cluster, since_s, now_s)
    yield from _placed(select, cluster, since_s, now_s)
    yield from _reviews(select, cluster, since_s, now_s)


def _stops(select: Select, cluster: str, since_s: int, now_s: int) -> Iterator[Compared]:
    columns, runs = decisions.c, pod_runs.c
    query = (
        sa.select(
            columns.reactor, columns.reason, columns.key, columns.at_us, columns.sequence, columns.type, runs.end_s,
        )
        .outerjoin(pod_runs, sa.and_(runs.uid == columns.key, runs.cluster == columns.cluster))
        .where(
            columns.cluster == cluster, columns.is_shadow == 1, columns.at_us >= since_s * SECOND_US,
            columns.type.in_((Cull.wire_type, Evict.wire_type)),
        )
        .order_by(columns.at_us)
    )  # fmt: skip
    for reactor, reason, uid, at_us, sequence, verb, end_s in select(query):
        at_s = at_us // SECOND_US
        if reactor == "culling" and _is_used(select, cluster, uid, at_us, sequence):
            result = "against"
        elif end_s is not None and end_s <= at_s + WITHIN_S:
            result = "agreed"
        elif now_s <= at_s + WITHIN_S:
            result = "open"
        else:
            # Whether a pod was still of use is seen of notebooks alone.
            result = "alone" if verb == Cull.wire_type else "against"
        held = _held(select, held_segments.c.uid == uid, at_s, now_s)
        yield Compared(reactor, reason, result, at_s, *held)


def _is_used(select: Select, cluster: str, uid: str, at_us: int, sequence: int) -> bool:
    """Whether a probe shows use of a notebook within an hour after a decision."""
    until_us = at_us + WITHIN_S * SECOND_US
    looks = archived(select, cluster, (NotebookSampled.wire_type,), key=uid, after=sequence)
    for event, fact in facts(looks):
        assert isinstance(fact, NotebookSampled)
        active = activity.fold(None, fact, event).active
        if active is not None and at_us < active[0] <= until_us:
            return True
        # A probe reports activity up to its own time only. The next probe covers the time after it.
        if event.time_us > until_us:
            return False
    return False


def _placed(select: Select, cluster: str, since_s: int, now_s: int) -> Iterator[Compared]:
    columns = _BINDS.c
    query = sa.select(
        columns.uid, columns.profile, sa.func.coalesce(columns.agreement, columns.outcome), columns.decided_s
    ).where(
        columns.cluster == cluster, columns.is_shadow == 1, columns.decided_s >= since_s,
        columns.outcome != "overtaken",
    )  # fmt: skip
    for uid, profile, found, at_s in select(query):
        if found in _PLACED:
            held = _held(select, held_segments.c.uid == uid, at_s, now_s)
            yield Compared("scheduling", f"profile {profile}", _PLACED[found], at_s, *held)


def _reviews(select: Select, cluster: str, since_s: int, now_s: int) -> Iterator[Compared]:
    columns = admissions.c
    asks = sa.select(
        columns.uid, columns.kind, columns.namespace, columns.name, columns.quota, columns.verdict,
        columns.reason, columns.time_us,
    ).where(columns.cluster == cluster, columns.time_us >= since_s * SECOND_US)  # fmt: skip
    adopted = set(
        select(asks.with_only_columns(columns.uid).where(columns.verdict == "adopted").distinct())
    )
    reviews = asks.where(columns.request != "", columns.operation == "CREATE")
    # A refused controller retries again and again: its last answer counts.
    newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for uid, kind, namespace, name, quota, verdict, reason, time_us in select(
        reviews.order_by(columns.time_us)
    ):
        newest[kind, namespace, name or uid, quota] = (uid, verdict, reason, time_us // SECOND_US)
    for (kind, namespace, name, _), (uid, verdict, reason, at_s) in newest.items():
        if verdict == "admitted":
            yield Compared("admission", reason, "agreed", at_s)
            continue
        came = (uid,) in adopted
        result = "against" if came else "agreed" if now_s > at_s + WITHIN_S else "open"
        held = (0, 0)
        if came:
            segments = held_segments.c
            of = sa.and_(segments.namespace == namespace, segments.workload == f"{kind}/{name}")
            held = _held(select, of, at_s, now_s)
        yield Compared("admission", reason, result, at_s, *held)


def _held(select: Select, of: sa.ColumnElement[bool], from_s: int, now_s: int) -> tuple[int, int]:
    """The holdings of pods from a second on, by the ledger's segments."""
    columns = held_segments.c
    query = sa.select(columns.start_s, columns.end_s, columns.cpu_milli, columns.gpu_milli)
    cpu = gpu = 0
    for start_s, end_s, cpu_milli, gpu_milli in select(query.where(of)):
        seconds = max((now_s if end_s is None else end_s) - max(start_s, from_s), 0)
        cpu, gpu = cpu + seconds * cpu_milli, gpu + seconds * gpu_milli
    return cpu, gpu

"""The waits of workloads: the queue, the start and the end of each.

One row for each held workload, by uid. It waits from its creation until it is released; after a stop and another
hold it has more than one release. The inputs are a set: held observations, releases and returns, whatever their
order.

Source: docs/queues.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.errors import TimestampError
from bus.events.admissions import AdmissionDecided, AdmissionReleased, Release
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.kube.kinds import GOVERNED, QUEUE_ANNOTATION
from projections import timelines
from projections.engine.codec import Codec, text
from projections.engine.contract import Integer, Key, Projection, row_table

waits = row_table(
    "waits",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # The queue it waits in; of a released one, the charged quota.
    sa.Column("quota", sa.Text, nullable=False),
    sa.Column("priority_class", sa.Text, nullable=False),
    sa.Column("wanted", sa.Text, nullable=False),
    # Null where it was only seen to go, or only its release was.
    sa.Column("created_us", Integer),
    sa.Column("released_us", Integer),
    sa.Column("gone_us", Integer),
    sa.Column("waiting", sa.Integer, nullable=False),
    sa.Column("releases", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Index("waits_waiting", "waiting", "quota"),
)

_KINDS = frozenset(kind.kind for kind in GOVERNED if kind.queues)

Part = WorkloadObserved | WorkloadVanished | AdmissionDecided | Release


class Mark(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Its release (``quota`` is charged from then on), or its observed stop with a new wait (quota "")."""

    time_us: int
    quota: str
    passed: str = ""


class Wait(msgspec.Struct, frozen=True):
    """One workload, by uid."""

    cluster: str
    uid: str
    kind: str = ""
    namespace: str = ""
    name: str = ""
    #: Its newest word on waiting; None where none was seen.
    observed: WorkloadObserved | None = None
    time_us: int = 0
    marks: tuple[Mark, ...] = ()
    gone: tuple[str, int] | None = None
    sequence: int = 0

    @property
    def waiting(self) -> bool:
        """Whether it waits, by all events."""
        is_held = self.observed is not None and self.observed.held and self.gone is None
        return is_held and (not self.marks or not self.marks[-1].quota)

    @property
    def created_us(self) -> int | None:
        """When it was made by its own stamp, else when it was seen; None where it was not."""
        if self.observed is None:
            return None
        try:
            return parse_stamp(self.observed.created or "")
        except TimestampError:
            return self.time_us


def parts(fact: Any) -> Iterable[Part]:
    """The parts of a fact for each waiting or earlier waiting workload."""
    if isinstance(fact, AdmissionReleased):
        return [one for one in fact.releases if one.reason == "returned"]
    return (fact,)


def keys(part: Part, event: Event) -> tuple[Key, ...]:
    """One workload: (cluster, uid). Of observations only those about waiting."""
    if isinstance(part, WorkloadObserved | WorkloadVanished) and part.kind not in _KINDS:
        return ()
    if isinstance(part, WorkloadObserved) and not (part.held or part.wanted):
        return ()
    if isinstance(part, AdmissionDecided) and part.reason != "released":
        return ()
    return ((event.cluster, part.uid),)


def fold(row: Wait | None, part: Part, event: Event) -> Wait:
    """The workload with one more fact; a known one changes nothing."""
    row = row or Wait(event.cluster, part.uid)
    changed = _folded(row, part, event)
    if changed == row and row.sequence:
        return row
    return msgspec.structs.replace(changed, sequence=event.sequence)


def _folded(row: Wait, part: Part, event: Event) -> Wait:
    if isinstance(part, Release):
        return _marked(row, Mark(event.time_us, ""))
    named = msgspec.structs.replace(row, kind=part.kind, namespace=part.namespace, name=part.name)
    if isinstance(part, AdmissionDecided):
        return _marked(named, Mark(event.time_us, part.quota, part.passed))
    if isinstance(part, WorkloadVanished):
        gone = timelines.later(row.gone, (part.resource_version, event.time_us))
        return msgspec.structs.replace(named, gone=gone)
    newest = (row.observed.resource_version, row.time_us) if row.observed else None
    if not timelines.replaces(part.resource_version, event.time_us, newest):
        return named
    return msgspec.structs.replace(named, observed=part, time_us=event.time_us)


def _marked(row: Wait, mark: Mark) -> Wait:
    return msgspec.structs.replace(row, marks=tuple(sorted({*row.marks, mark})))


def _shown(row: Wait) -> dict[str, Any]:
    observed, released = row.observed, [mark for mark in row.marks if mark.quota]
    queue = observed.annotations.get(QUEUE_ANNOTATION, "") if observed else ""
    return {
        "quota": released[-1].quota if released else queue,
        "priority_class": observed.priority_class if observed else "",
        "wanted": text(observed.wanted if observed else {}),
        "created_us": row.created_us,
        "released_us": released[0].time_us if released else None,
        "gone_us": row.gone[1] if row.gone else None,
        "waiting": int(row.waiting),
        "releases": len(released),
    }


codec = Codec(Wait, waits, packed={"state": ("observed", "time_us", "marks", "gone")}, shown=_shown)

projection = Projection(
    name="waits",
    # 2: facts of workloads have their generation, and rows keep these facts.
    version=2,
    table=waits,
    facts=(WorkloadObserved, WorkloadVanished, AdmissionDecided, AdmissionReleased),
    keys=keys,
    fold=fold,
    codec=codec,
    parts=parts,
)

"""A workload as admission knows it, read from what was said of it. Pure.

Source: ``house.md`` section 3.2.
"""

from __future__ import annotations

import msgspec

from bus.clock import parse_stamp
from bus.errors import TimestampError
from bus.events import pods, workloads
from bus.events.observations import ObjectsListed
from bus.events.pods import Owner
from bus.kinds import Ask


class Object(msgspec.Struct, frozen=True):
    """A workload as its newest observation says."""

    uid: str
    kind: str
    namespace: str
    name: str
    version: str
    seen_us: int
    owner: Owner | None = None
    labels: dict[str, str] = {}
    ask: Ask = Ask()
    created_us: int = 0
    #: The newest complete list that showed it so.
    listed_us: int = 0


def object_of(fact: workloads.WorkloadObserved, time_us: int) -> Object:
    """The workload that an observation of ``time_us`` shows."""
    return Object(
        fact.uid, fact.kind, fact.namespace, fact.name, fact.resource_version,
        time_us, fact.owner, fact.labels, _ask(fact), _created_us(fact, time_us),
    )  # fmt: skip


def covers(fact: ObjectsListed | pods.PodsListed, uid: str) -> bool:
    """Whether this part of a list would show an object ``uid``."""
    return fact.first <= uid and (not fact.until or uid < fact.until)


def _ask(fact: workloads.WorkloadObserved) -> Ask:
    return Ask(
        fact.demand or {}, fact.pods, fact.deadline_s, fact.suspended, fact.labels,
        fact.priority_class, fact.per_replica, fact.replicas, fact.wanted, fact.held, fact.unstated,
    )  # fmt: skip


def _created_us(fact: workloads.WorkloadObserved, time_us: int) -> int:
    """When it was made, by its own stamp; where that cannot be read, when it was seen."""
    try:
        return parse_stamp(fact.created or "")
    except TimestampError:
        return time_us

"""The rows of further objects about pods: disruption budgets, PodGroups with a common start, services of jobs. Pure."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.events.constraints import LabelSelector
from bus.events.pods import DisruptionBudgetObserved, Owner, PodGroupObserved
from bus.events.services import ServiceObserved


class DisruptionBudget(msgspec.Struct, gc=False):
    """A disruption budget."""

    kind: ClassVar[str] = "PodDisruptionBudget"

    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    selector: LabelSelector | None
    #: How many of its pods may go now.
    allowed: int
    disrupted: tuple[str, ...] = ()
    unkept_labels: tuple[str, ...] = ()
    #: Its protected pods are unknown.
    is_cut: bool = False
    last_us: int = 0
    listed_us: int = 0


def disruption_budget(
    fact: DisruptionBudgetObserved, time_us: int, known: DisruptionBudget | None
) -> DisruptionBudget:
    """The row of a disruption budget."""
    return DisruptionBudget(
        fact.uid, fact.namespace, fact.name, fact.resource_version, time_us, fact.selector,
        fact.allowed, fact.disrupted, fact.unkept_labels, fact.is_cut, time_us,
    )  # fmt: skip


class PodGroup(msgspec.Struct, gc=False):
    """A PodGroup. ``kind`` names the API, see :mod:`bus.events.pods`; texts are as its annotations have them."""

    uid: str
    kind: str
    namespace: str
    name: str
    version: str
    seen_us: int
    #: None = each pod is placed by itself.
    least: int | None
    wait_seconds: int | None
    mode: str
    total: str
    groups: str
    is_cut: bool
    queue: str
    phase: str
    owner: Owner | None
    topology: str
    #: It was made from the annotations of pods. These have more data.
    is_copy: bool
    #: None of its pods is evicted for a more important one without the others.
    goes_whole: bool = False
    last_us: int = 0
    listed_us: int = 0


def pod_group(fact: PodGroupObserved, time_us: int, known: PodGroup | None) -> PodGroup:
    """The row of a PodGroup."""
    return PodGroup(
        fact.uid, fact.kind, fact.namespace, fact.name, fact.resource_version, time_us, fact.least,
        fact.wait_seconds, fact.mode, fact.total, fact.groups, fact.is_cut, fact.queue, fact.phase, fact.owner,
        fact.topology, fact.is_copy, fact.goes_whole, time_us,
    )  # fmt: skip


class Service(msgspec.Struct, gc=False):
    """A service of a training job. ``job``, ``type`` and ``index`` are as its labels have them."""

    kind: ClassVar[str] = "Service"

    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    owner: Owner | None
    job: str
    type: str
    index: str
    is_terminating: bool
    last_us: int = 0
    listed_us: int = 0


def service(fact: ServiceObserved, time_us: int, known: Service | None) -> Service:
    """The row of a service."""
    return Service(
        fact.uid, fact.namespace, fact.name, fact.resource_version, time_us, fact.owner, fact.job,
        fact.type, fact.index, fact.is_terminating, time_us,
    )  # fmt: skip

"""One row for each object of the cluster by its newest observation: only the needed fields. Pure.

Rows are compact. Texts shared by many objects are one object in memory, and so are demands of pods with equal
specs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from sys import intern
from typing import ClassVar, Protocol, TypeVar

import msgspec

from bus.amounts import NANO, PodResources
from bus.charges import effective
from bus.clock import parse_stamp
from bus.errors import EnvelopeError, TimestampError
from bus.events.constraints import PodConstraints, Taint
from bus.events.devices import given_devices
from bus.events.namespaces import NamespaceObserved
from bus.events.nodes import NodeObserved
from bus.events.pods import Owner, PodObserved, PodState
from bus.events.priorities import NEVER, PriorityClassObserved
from bus.events.quotas import QuotaObserved
from bus.events.workloads import WorkloadObserved
from bus.kube.kinds import Ask
from projections.cluster.unrequested import unrequested
from projections.devices.requested import observed_cards
from projections.nodes import sharing_of

POD = "Pod"

#: Largest amount of a pod's demand, in its unit: larger than any node, and sums of it stay numbers of 64 bits.
LARGEST = 2**50

#: Phases of ended pods.
ENDED = frozenset({"Succeeded", "Failed"})


class Row(Protocol):
    """The fields of every row for the store of objects; it alone changes the last four.

    ``version`` is the resourceVersion, ``seen_us`` the first and ``last_us`` the last observation of this version,
    ``listed_us`` the newest complete list with the object; 0 = in none.
    """

    uid: str
    version: str
    seen_us: int
    last_us: int
    listed_us: int

    @property
    def kind(self) -> str:
        """The Kubernetes kind."""

    @property
    def namespace(self) -> str:
        """ "" for an object of the whole cluster."""

    @property
    def name(self) -> str:
        """Its name."""


R = TypeVar("R", bound=Row)
#: Makes the row of an observation, with shared parts of the row before it; only called for the newest observation.
Make = Callable[[R | None], R]


class Pod(msgspec.Struct, gc=False):
    """A pod. Its times are microseconds UTC; ``started_us`` is its bind time, else its creation, else its first
    observation.
    """

    kind: ClassVar[str] = POD
    #: Nobody asks when it was made.
    created_us: ClassVar[int] = 0

    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    phase: str
    node: str
    #: Its deletion was asked for.
    is_terminating: bool
    started_us: int
    priority: int
    team: str
    owner: Owner | None
    labels: dict[str, str]
    annotations: dict[str, str]
    #: ``requests.<resource>`` and ``limits.<resource>``, cpu in milli, others whole. Shared: never changed.
    demand: dict[str, int]
    #: Cpu (milli) and memory (bytes) in a scheduler's scores for its containers without requests; None for an
    #: unreadable request: its need is unknown.
    unrequested: tuple[int, int] | None = (0, 0)
    #: None = it may go anywhere. Shared: never changed.
    constraints: PodConstraints | None = None
    #: Templates of its claims of devices, and extended resources backed by a claim.
    templates: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    #: Its demand by claims, computed by :mod:`projections.cluster.claiming`. Never changed.
    by_claim: dict[str, int] = {}
    #: Devices of its node in its annotation, None = no annotation; every writer of pods may write it.
    devices: tuple[int, ...] | None = None
    #: Its report about cards besides amounts (``projections.devices.requested.CardFacts`` as JSON); "" = amounts
    #: are complete.
    cards: str = ""
    #: It runs, and its condition Ready is False.
    is_unready: bool = False
    last_us: int = 0
    listed_us: int = 0

    @property
    def asks(self) -> dict[str, int]:
        """Its whole demand: its requests and limits, and devices by claim."""
        if not self.by_claim:
            return self.demand
        keys = self.demand.keys() | self.by_claim.keys()
        return {key: self.demand.get(key, 0) + self.by_claim.get(key, 0) for key in sorted(keys)}

    @property
    def ask(self) -> Ask:
        """Its demand as a workload of its own."""
        is_ended = self.phase in ENDED
        return Ask(labels=self.labels) if is_ended else Ask(self.asks, 1, labels=self.labels)

    @property
    def is_ended(self) -> bool:
        """Whether it holds nothing any more."""
        return self.phase in ENDED

    @property
    def is_running(self) -> bool:
        """Whether it runs and nobody asked for its deletion."""
        return self.phase == "Running" and not self.is_terminating

    @property
    def is_bound(self) -> bool:
        """Whether it holds a part of a node, and is not about to end."""
        return bool(self.node) and not self.is_terminating and self.phase not in ENDED


class Workload(msgspec.Struct, gc=False):
    """An object of a governed kind: a Deployment or a Job, say."""

    uid: str
    kind: str
    namespace: str
    name: str
    version: str
    seen_us: int
    owner: Owner | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ask: Ask = Ask()
    #: By its own stamp; the time of observation for an unreadable one.
    created_us: int = 0
    #: Its ask as it was written, where templates of claims stand in it; None = ``ask`` is.
    written: Ask | None = None
    is_terminating: bool = False
    generation: int = 0
    last_us: int = 0
    listed_us: int = 0


class Node(msgspec.Struct, gc=False):
    """A node."""

    kind: ClassVar[str] = "Node"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    allocatable: dict[str, str]
    labels: dict[str, str]
    #: Its GPU model; "" = none is known.
    model: str = ""
    #: Cordoned.
    unschedulable: bool = False
    #: Labels used by schedulers only.
    further_labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    #: Its images, as its fact has them.
    images: str = ""
    #: Not all of its labels and taints are known.
    is_cut: bool = False
    #: Limits to its real use, as its annotation has them.
    usage_thresholds: str = ""
    #: Its report about shared cards, as JSON; an absent text keeps its last value.
    cards: str = ""
    last_us: int = 0
    listed_us: int = 0


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """A namespace, existing or gone: its labels stay valid."""

    kind: ClassVar[str] = "Namespace"

    name: str
    version: str
    seen_us: int
    team: str
    labels: dict[str, str]


class Quota(msgspec.Struct, gc=False):
    """A quota of either kind, from its object."""

    uid: str
    kind: str
    namespace: str
    name: str
    version: str
    seen_us: int
    fact: QuotaObserved
    last_us: int = 0
    listed_us: int = 0


class PriorityClass(msgspec.Struct, gc=False):
    """A priority class."""

    kind: ClassVar[str] = "PriorityClass"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    value: int
    is_default: bool
    #: Its pods may take the room of less important ones.
    preempts: bool
    last_us: int = 0
    listed_us: int = 0


def pod(fact: PodObserved, time_us: int, known: Pod | None) -> Pod:
    """The row of a pod. Raises EnvelopeError where its resources are none."""
    labels, annotations, owner = (
        (known.labels, known.annotations, known.owner) if known else (None,) * 3
    )
    return Pod(
        fact.uid, intern(fact.namespace), fact.name, fact.resource_version, time_us, intern(fact.phase),
        intern(fact.node or ""), fact.deletion is not None, _us(fact.scheduled or fact.created, time_us),
        fact.priority, intern(fact.team or ""), _owner(fact.owner, owner), _texts(fact.labels, labels),
        _texts(fact.annotations, annotations), demand_of(fact), unrequested(bytes(fact.resources)),
        constraints_of(bytes(fact.constraints)), fact.claim_templates, fact.claimed,
        devices=given_devices(fact.card_texts), cards=intern(observed_cards(fact)),
        is_unready=fact.is_unready, last_us=time_us,
    )  # fmt: skip


def workload(fact: WorkloadObserved, time_us: int, known: Workload | None) -> Workload:
    """The row of a workload."""
    labels = _texts(fact.labels, known.labels if known is not None else None)
    return Workload(
        fact.uid, intern(fact.kind), intern(fact.namespace), fact.name, fact.resource_version, time_us,
        _owner(fact.owner, None), labels, _texts(fact.annotations, None), _ask(fact, labels),
        _us(fact.created, time_us), None, fact.is_terminating, fact.generation, time_us,
    )  # fmt: skip


def node(fact: NodeObserved, time_us: int, known: Node | None) -> Node:
    """The row of a node."""
    return Node(
        fact.uid, intern(fact.name), fact.resource_version, time_us, _texts(fact.allocatable, None),
        _texts(fact.labels, None), intern(fact.model or ""), fact.unschedulable, _texts(fact.further_labels, None),
        fact.taints, fact.images, fact.is_cut, intern(fact.usage_thresholds),
        intern(sharing_of(fact, known.cards if known is not None and known.uid == fact.uid else "")), time_us,
    )  # fmt: skip


def namespace(fact: NamespaceObserved, time_us: int) -> Namespace:
    """The row of a namespace."""
    labels = _texts(fact.labels, None)
    return Namespace(intern(fact.name), fact.resource_version, time_us, fact.team or "", labels)


def quota(fact: QuotaObserved, time_us: int, known: Quota | None) -> Quota:
    """The row of a quota."""
    return Quota(
        fact.uid, intern(fact.kind), fact.namespace, fact.name, fact.resource_version, time_us, fact, time_us
    )  # fmt: skip


def priority_class(
    fact: PriorityClassObserved, time_us: int, known: PriorityClass | None
) -> PriorityClass:
    """The row of a priority class."""
    return PriorityClass(
        fact.uid, fact.name, fact.resource_version, time_us, fact.value, fact.is_default,
        fact.preemption_policy != NEVER, time_us,
    )  # fmt: skip


def demand_of(fact: PodState) -> dict[str, int]:
    """A pod's demand, from its facts: its requests and its limits. Shared: never changed.

    Older histories lack the limits: these are at least as high as the requests. An unreadable amount counts as
    zero.

    Raises EnvelopeError where these are no resources.
    """
    limits = None if fact.limits is None else tuple(fact.limits.items())
    return demand_from(bytes(fact.resources), limits)


@lru_cache(maxsize=8_192)
def demand_from(resources: bytes, limits: tuple[tuple[str, int], ...] | None) -> dict[str, int]:
    """See :func:`demand_of`; kept, as most pods of a cluster are written alike and seen several times."""
    requests = _requests(resources)
    demand = {f"requests.{name}": amount for name, amount in requests.items()}
    for name, amount in requests.items():
        if limits is None or "/" in name or name.startswith("hugepages-"):
            demand[f"limits.{name}"] = amount
    for name, amount in limits or ():
        demand[f"limits.{name}"] = amount
    return {intern(key): min(amount, LARGEST) for key, amount in demand.items()}


@lru_cache(maxsize=8_192)
def constraints_of(raw: bytes) -> PodConstraints | None:
    """The constraints of a fact, kept, as pods of a workload have equal ones. Raises EnvelopeError where they are none."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw, type=PodConstraints)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EnvelopeError("the pod's constraints do not fit", reason=str(error)) from error


def _requests(resources: bytes) -> dict[str, int]:
    try:
        found, _ = effective(msgspec.json.decode(resources, type=PodResources))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EnvelopeError("the pod's resources do not fit", reason=str(error)) from error
    amounts = {}
    for name, nano in sorted(found.items()):
        if amount := -(-nano // (NANO // 1000 if name == "cpu" else NANO)):
            amounts[name] = amount
    return amounts


def _ask(fact: WorkloadObserved, labels: dict[str, str]) -> Ask:
    return Ask(
        fact.demand or {}, fact.pods, fact.deadline_s, fact.suspended, labels, fact.priority_class,
        fact.per_replica, fact.replicas, fact.wanted, fact.held, fact.unstated, runtime=fact.runtime or msgspec.UNSET,
    )  # fmt: skip


_NONE: dict[str, str] = {}


def _texts(found: Mapping[str, str], known: dict[str, str] | None) -> dict[str, str]:
    """The same texts, held once each, or an equal ``known``. Never changed: the empty one is one object."""
    if found == known:
        return known
    return {intern(key): intern(text) for key, text in found.items()} if found else _NONE


def _owner(owner: Owner | None, known: Owner | None) -> Owner | None:
    if owner == known:
        return known
    return None if owner is None else _owned(owner.kind, owner.name, owner.uid)


# The pods of a workload are seen near each other.
@lru_cache(maxsize=8_192)
def _owned(kind: str, name: str, uid: str) -> Owner:
    return Owner(intern(kind), name, intern(uid))


def _us(stamp: str | None, otherwise_us: int) -> int:
    try:
        return parse_stamp(stamp) if stamp else otherwise_us
    except TimestampError:
        return otherwise_us

"""The row of a Reservation, and its own properties: its end, and its pods. Pure.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 Reservation; docs/scheduling.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from sys import intern
from typing import ClassVar

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.clock import parse_stamp
from bus.errors import QuantityError, TimestampError
from bus.events.constraints import PodConstraints
from bus.events.pods import ReservationCondition, ReservationObserved, ReservationOwner
from projections.cluster import rows

#: Phases. A reservation is ``Waiting`` only while it waits for room of running pods (preAllocation).
PENDING, AVAILABLE, WAITING, SUCCEEDED, FAILED = "Pending", "Available", "Waiting", "Succeeded", "Failed"  # fmt: skip
#: No duration is longer.
LONGEST_US = 2**62

_PART = re.compile(r"(\d{1,12})(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)")
_NANOS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_ORDER = re.compile(r"[+-]?\d{1,18}")


#: By resource, cpu in milli and all others whole.
Amounts = Mapping[str, int]


class Status(msgspec.Struct, frozen=True):
    """The status of a Reservation. ``allocated`` {} = never allocated; ``owners`` are uids of pods."""

    phase: str = PENDING
    node: str = ""
    allocatable: Amounts = {}
    allocated: Amounts = {}
    owners: tuple[str, ...] = ()
    conditions: tuple[ReservationCondition, ...] = ()


class ReservationShare(msgspec.Struct, frozen=True, gc=False):
    """A pod's allocation from a reservation."""

    reservation: str
    request: dict[str, int]


class SavedReservations(msgspec.Struct):
    """The part of a snapshot for the scheduler's allocations from reservations."""

    statuses: dict[str, Status]
    given: dict[str, ReservationShare]
    ticked_us: int


class Reservation(msgspec.Struct, gc=False):
    """A Reservation. Amounts are cpu in milli, all others whole; times are microseconds UTC."""

    kind: ClassVar[str] = "Reservation"

    uid: str
    #: The uid of its stand-in pod; the object itself has none.
    pod_namespace: str
    name: str
    version: str
    seen_us: int
    created_us: int
    is_terminating: bool
    team: str
    labels: dict[str, str]
    has_template: bool
    template_node: str
    priority: int | None
    priority_class: str
    #: As of a pod; shared, never changed.
    demand: dict[str, int]
    constraints: PodConstraints | None
    owners: tuple[ReservationOwner, ...]
    unkept_labels: tuple[str, ...]
    owners_cut: bool
    #: 0 = never ends, None = not stated.
    ttl_us: int | None
    expires_us: int | None
    allocate_once: bool
    #: It may take the place of a running pod, until that ends.
    pre_allocation: bool
    is_closed: bool
    allocate_policy: str
    restricted: tuple[str, ...]
    #: 0 = none.
    order: int
    phase: str
    node: str
    conditions: tuple[ReservationCondition, ...]
    allocatable: dict[str, int]
    allocated: dict[str, int]
    current_owners: tuple[str, ...]
    last_us: int = 0
    listed_us: int = 0

    namespace: ClassVar[str] = ""

    @property
    def reserved(self) -> dict[str, int]:
        """Its reserved amounts: from its status once it has a node, else the requests of its template."""
        return self.allocatable if self.node and self.allocatable else requested(self.demand)


def reservation(fact: ReservationObserved, time_us: int, known: Reservation | None) -> Reservation:
    """The row of a Reservation. Raises EnvelopeError where its resources are none."""
    return Reservation(
        fact.uid, intern(fact.namespace), fact.name, fact.resource_version, time_us,
        _us(fact.created, time_us) or time_us, fact.deletion is not None, intern(fact.team or ""), fact.labels,
        fact.has_template, fact.template_node, fact.priority, fact.priority_class, _demand(fact),
        rows.constraints_of(bytes(fact.constraints)), fact.owners, fact.unkept_labels, fact.owners_cut,
        None if fact.ttl is None else go_duration_us(fact.ttl), _us(fact.expires, None), fact.allocate_once, fact.pre_allocation,
        fact.unschedulable or fact.has_taints, intern(fact.allocate_policy), fact.restricted, order_of(fact.order),
        intern(fact.phase), intern(fact.node), fact.conditions, _amounts(fact.allocatable), _amounts(fact.allocated),
        fact.current_owners, time_us,
    )  # fmt: skip


def requested(demand: Mapping[str, int]) -> dict[str, int]:
    """The requests of a demand, by resource."""
    return {
        name: amount
        for key, amount in demand.items()
        if (name := key.removeprefix("requests.")) != key
    }


def go_duration_us(text: str) -> int | None:
    """A duration as Go writes it, ``1h30m``, rounded up to microseconds; None where it is none."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(one.group() for one in parts) != rest:
        return None
    nanos = 0
    for one in parts:
        number, digits, name = one.groups()
        unit, fraction = _NANOS[name], (digits or "")[:18]
        nanos += int(number) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
    return sign * min(-(-nanos // 1000), LONGEST_US)


def order_of(text: str) -> int:
    """A reservation's place by its label, the smallest first; 0 = without a label."""
    return int(text) if _ORDER.fullmatch(text) and text.isascii() else 0


def is_active(phase: str, node: str) -> bool:
    """Whether it has room of a node: it is Available or Waiting, on a node."""
    return bool(node) and phase in (AVAILABLE, WAITING)


def is_over(
    phase: str, now_us: int, created_us: int, ttl_us: int | None, expires_us: int | None
) -> bool:
    """Whether its time is over. ``ttl_us`` 0 = never, even with an expiry time."""
    if phase in (SUCCEEDED, FAILED) or ttl_us == 0:
        return False
    is_late = expires_us is not None and now_us > expires_us
    return is_late or (ttl_us is not None and now_us - created_us > ttl_us)


def _demand(fact: ReservationObserved) -> dict[str, int]:
    limits = None if fact.limits is None else tuple(fact.limits.items())
    return rows.demand_from(bytes(fact.resources), limits)


def _amounts(written: Mapping[str, str] | None) -> dict[str, int]:
    found = {}
    for name, text in (written or {}).items():
        try:
            nano = observed_quantity(text)
        except QuantityError:
            nano = 0
        unit = NANO // 1000 if name == "cpu" else NANO
        found[intern(name)] = min(max(0, -(-nano // unit)), rows.LARGEST)
    return found


def _us(stamp: str | None, otherwise: int | None) -> int | None:
    try:
        return parse_stamp(stamp) if stamp else otherwise
    except TimestampError:
        return otherwise

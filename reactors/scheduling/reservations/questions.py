"""Questions about the scheduler's Reservations: the pods allowed to use each, and its room. Pure but for its state.

Source: koordinator-sh/koordinator, "Resource Reservation"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from projections.cluster import ClusterState, Pod
from projections.cluster.reservations import (
    AVAILABLE,
    PENDING,
    Amounts,
    Reservation,
    ReservationShare,
    Status,
    requested,
)
from reactors.scheduling.reservations import rules
from reactors.scheduling.reservations.candidates import ReservationCandidates
from reactors.scheduling.reservations.owners import NamedOwners
from reactors.scheduling.shape import Assumed, holds

#: Phases of a reservation without a node.
WITHOUT_NODE = ("", PENDING)


class OnNode(Protocol):
    """A pod counted on a node."""

    @property
    def node(self) -> str:
        """Its name."""


class PodCounter(Protocol):
    """The counter of pods on nodes: :class:`reactors.scheduling.columns.table.Columns`."""

    def counted(self, uid: str) -> OnNode | None:
        """The placement of a pod; None = on no node."""

    def place(self, pod: Pod, node: str) -> None:
        """Count a pod on a node from now on, ahead of the history."""

    def take_back(self, uid: str) -> None:
        """Take back a pod placed ahead of the history."""

    def lift(self, uid: str) -> None:
        """Take a pod off until :meth:`put_back`."""

    def put_back(self, uid: str) -> None:
        """Count a lifted pod again."""


class KnownReservations:
    """The reservations of one cluster, over its columns. ``assumed``: pods with a node ahead of the history."""

    def __init__(
        self, cluster: ClusterState, columns: PodCounter, assumed: Mapping[str, Assumed]
    ) -> None:
        self._cluster, self._columns, self._assumed = cluster, columns, assumed
        #: Without conditions, and amounts of 0 left out. :meth:`record` writes them.
        self.statuses: dict[str, Status] = {}
        #: By pod.
        self.given_parts: dict[str, ReservationShare] = {}
        self.named = NamedOwners(cluster)
        #: Those with room on a node, by their possible pods.
        self._open = ReservationCandidates()
        #: The last pod of a question, and its answer.
        self._usable: tuple[Pod, list[Reservation]] | None = None
        #: By reservation, until a change: the replaceable pods, by node. The search reads all pods.
        self._places: dict[str, dict[str, Pod]] = {}

    def record(self, row: Reservation, status: Status) -> None:
        """Write the status of a reservation. Cached answers are forgotten."""
        allocated = {name: amount for name, amount in status.allocated.items() if amount}
        self.statuses[row.uid] = msgspec.structs.replace(status, allocated=allocated, conditions=())
        self._usable = None
        self._places.clear()
        self.open(row)

    def open(self, row: Reservation) -> None:
        """Let pods find a reservation, or not, by its status."""
        self._open.put(row, is_there=_is_open(row, self.statuses[row.uid]))

    def remove(self, row: Reservation) -> None:
        """A reservation is gone, with its parts."""
        del self.statuses[row.uid]
        for pod in [pod for pod, one in self.given_parts.items() if one.reservation == row.uid]:
            del self.given_parts[pod]
        self.named.change(row.uid, row.current_owners, ())
        self._open.remove(row.uid)
        self._usable = None

    def forget_places(self) -> None:
        """Forget the replaceable pods of all reservations after a change."""
        self._places.clear()

    def replaceable(self, row: Reservation) -> dict[str, Pod]:
        """By node: the pod replaceable by a reservation; of several pods the one requesting most of the reserved room."""
        if row.uid not in self._places:
            self._places[row.uid] = self._searched(row)
        return self._places[row.uid]

    def _searched(self, row: Reservation) -> dict[str, Pod]:
        best: dict[str, tuple[int, Pod]] = {}
        for pod in self._cluster.pods.values() if row.pre_allocation and not row.node else ():
            request = requested(pod.demand)
            if (
                holds(pod)
                and not pod.is_terminating
                and pod.uid not in self.given_parts
                and self._columns.counted(pod.uid) is not None
                and _is_meant(row, _applicant(pod))
                and _fits(row, Status(allocatable=row.reserved), request)
            ):
                share = rules.score(request, row.reserved, {})
                known = best.get(pod.node)
                if known is None or (share, known[1].uid) > (known[0], pod.uid):
                    best[pod.node] = (share, pod)
        return {node: pod for node, (_, pod) in best.items()}

    def matched(self, pod: Pod) -> list[Reservation]:
        """The reservations with room on a node and an owner matching a pod, in the order of uids."""
        # A pod with a node uses its given part, and nothing later.
        if pod.uid in self._assumed or self.is_stand_in(pod.uid):
            return []
        applicant = _applicant(pod)
        rows = map(self._cluster.reservations.__getitem__, self._open.of(applicant))
        return [one for one in rows if _is_meant(one, applicant)]

    def usable(self, pod: Pod) -> list[Reservation]:
        """The reservations with enough room for the pod, by their policies."""
        if pod.uid in self._assumed:
            return []
        if self._usable is None or self._usable[0] is not pod:
            request = requested(pod.demand)
            found = [
                row for row in self.matched(pod) if _fits(row, self.statuses[row.uid], request)
            ]
            self._usable = (pod, found)
        return self._usable[1]

    def status(self, uid: str) -> Status:
        """The room and the given parts of a reservation, without conditions."""
        return self.statuses[uid]

    def given(self, pod: str) -> str:
        """The reservation used by a pod; "" = none."""
        found = self.given_parts.get(pod)
        return found.reservation if found is not None else ""

    def used(self, pod: str) -> Reservation | None:
        """The reservation used by a pod; None = none."""
        return self._cluster.reservations.get(self.given(pod))

    def is_stand_in(self, uid: str) -> bool:
        """Whether this is a reservation, and no pod."""
        return uid in self._cluster.reservations

    def is_assumed(self, uid: str) -> bool:
        """Whether it has a node ahead of the history."""
        return uid in self._assumed

    def waits(self, row: Reservation) -> bool:
        """Whether a reservation may get a node."""
        status = self.statuses[row.uid]
        return not status.node and status.phase in WITHOUT_NODE and is_valid(row)

    def stand_in(self, uid: str) -> Pod:
        """The pod waiting in the place of a reservation. Raises KeyError for an unknown reservation."""
        row = self._cluster.reservations[uid]
        found = self._cluster.priority_class(row.priority_class) if row.priority_class else None
        return _stand_in(row, found.value if found is not None else 0)

    def stand_ins(self) -> dict[str, Pod]:
        """All of them."""
        return {uid: self.stand_in(uid) for uid in self._cluster.reservations}

    @contextmanager
    def lifted(self, pod: Pod, node: str = "") -> Iterator[None]:
        """Meanwhile the reservations usable by a pod hold no room, nor do the pods replaceable by a reservation.

        ``node``: only those on it.
        """
        row = self._cluster.reservations.get(pod.uid)
        if row is not None and pod.uid not in self._assumed:
            found = [one.uid for at, one in self.replaceable(row).items() if node in ("", at)]
        else:
            found = [
                row.uid
                for row in self.usable(pod)
                if (kept := self._columns.counted(row.uid)) is not None and node in ("", kept.node)
            ]
        for uid in found:
            self._columns.lift(uid)
        try:
            yield
        finally:
            for uid in found:
                self._columns.put_back(uid)


def _applicant(pod: Pod) -> rules.Applicant:
    owner = pod.owner
    found = () if owner is None else (rules.Reference(owner.kind, owner.name, owner.uid, "", True),)
    return rules.Applicant(pod.namespace, pod.name, pod.uid, labels=pod.labels, references=found)


def _is_meant(row: Reservation, pod: rules.Applicant) -> bool:
    return rules.owns(row.owners, pod, frozenset(row.unkept_labels))


def _fits(row: Reservation, status: Status, request: Amounts) -> bool:
    """Whether a pod may use the rest of a reservation, by its policy."""
    has, gave = status.allocatable, status.allocated
    return rules.from_node(row.allocate_policy, row.restricted, request, has, gave) is not None


def _stand_in(row: Reservation, usual: int) -> Pod:
    """The pod waiting in the place of a reservation; ``usual`` is its priority without one in the template."""
    terms = row.constraints
    if terms is not None:
        terms = msgspec.structs.replace(
            terms, gang=None, never_preempts=True, claims=(), ephemeral_claims=()
        )
    return Pod(
        row.uid, row.pod_namespace, row.name, row.version, row.seen_us, "Pending", "", False, row.created_us,
        usual if row.priority is None else row.priority, row.team, None, row.labels,
        rules.reserve_annotations(row.name, row.template_node), row.demand, constraints=terms,
    )  # fmt: skip


def _is_open(row: Reservation, status: Status) -> bool:
    is_there = status.phase == AVAILABLE and bool(status.node)
    return is_there and is_valid(row) and not row.is_closed


def is_valid(row: Reservation) -> bool:
    """Whether it has all required fields."""
    # Owners beyond a fact's limit exist, but no pod is known to be one.
    owners = len(row.owners) + row.owners_cut
    has_times = (row.ttl_us is not None, row.expires_us is not None)
    return not row.is_terminating and not rules.invalid(row.has_template, owners, *has_times)

"""The Reservations of the scheduler: the room of each, and the parts given to pods. Pure but for its state.

A pod standing for the reservation holds the room on its node. It requests the unused part, so every plugin for room finds less. It
is more important than any pod, has no labels, ports or volumes, and is never a victim. At the placement of a pod with usable
reservations, their rooms are lifted. A reservation may replace a running pod (``preAllocation``). At its placement, one such pod
of each node is lifted; the one on the chosen node is its owner from then on.

The pods with a part follow from the passes, and from the owners in the status. The kept reservation has no conditions, so a trial
leaves no trace.

Source: koordinator-sh/koordinator, "Resource Reservation"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from projections.cluster import Change, ClusterState, Pod
from projections.cluster.reservations import (
    FAILED,
    SUCCEEDED,
    Amounts,
    Reservation,
    ReservationShare,
    SavedReservations,
    Status,
    is_active,
    is_over,
    requested,
)
from reactors.scheduling.reservations import rules
from reactors.scheduling.reservations.questions import (
    WITHOUT_NODE,
    KnownReservations,
    PodCounter,
)
from reactors.scheduling.shape import Assumed, holds

#: The priority of a pod holding room: the highest.
HIGHEST = 2**31 - 1


class Reservations:
    """The reservations of one cluster, and the parts given to pods. ``assumed``: pods with a node ahead of the history."""

    def __init__(
        self, cluster: ClusterState, columns: PodCounter, assumed: Mapping[str, Assumed]
    ) -> None:
        self._cluster, self._columns, self._assumed = cluster, columns, assumed
        self.known = KnownReservations(cluster, columns, assumed)
        #: The newest tick: only ticks end times.
        self._ticked_us = 0

    def begin(self, saved: SavedReservations | None = None) -> None:
        """Read the existing objects, and the state from a snapshot or from another policy."""
        rows = self._cluster.reservations
        if saved is not None:
            self._ticked_us, self.known.statuses = saved.ticked_us, dict(saved.statuses)
            self.known.given_parts = dict(saved.given)
        for uid in sorted(rows):
            self.known.named.change(uid, (), rows[uid].current_owners)
            if uid in self.known.statuses:
                self.known.open(rows[uid])
                self._hold(uid)
            else:
                self._saw(rows[uid])

    def saved(self) -> SavedReservations:
        """The part of a snapshot for reservations."""
        return SavedReservations(
            dict(sorted(self.known.statuses.items())), self.known.given_parts, self._ticked_us
        )

    def handed_on(self, bound: set[str]) -> SavedReservations:
        """The state for another policy, with binds only for the pods of ``bound``."""
        found = self.saved()
        # A reservation without a bind replaces no pod.
        ended = [uid for uid, one in found.statuses.items() if one.phase in WITHOUT_NODE]
        pods = self._cluster.pods
        bound = bound | {uid for uid in found.given if (pod := pods.get(uid)) and pod.node}
        for uid, one in dict(found.given).items():
            if uid not in bound or (one.reservation in ended and one.reservation not in bound):
                self.give_back(uid)
        return self.saved()

    # folding

    def follow(self, changes: Iterable[Change]) -> bool:
        """Follow the changes of the cluster; whether they change the room."""
        has_moved = False
        self.known.forget_places()
        for change in changes:
            before, after = change.before, change.after
            if isinstance(after, Reservation):
                owners = before.current_owners if isinstance(before, Reservation) else ()
                self.known.named.change(after.uid, owners, after.current_owners)
                self._saw(after)
                has_moved = True
            elif isinstance(before, Reservation):
                self._end(before)
                has_moved = True
            elif isinstance(after, Pod) and holds(after):
                is_new = not isinstance(before, Pod) or not before.node
                has_moved |= self._bound(after) and is_new
            elif isinstance(before, Pod) and _has_left(before, after):
                has_moved |= self._gone(before)
        return has_moved

    def elapse(self, at_us: int) -> list[str]:
        """The reservations expired from now on, or no longer expired after a correction of the clock."""
        self._ticked_us = at_us
        found = []
        for uid, row in self._cluster.reservations.items():
            status = self.known.statuses[uid]
            if _is_late(row, self._ticked_us) and status.phase not in (SUCCEEDED, FAILED):
                self._set(uid, rules.expired(status))
                found.append(uid)
            elif (
                status.phase == FAILED
                and row.phase not in (SUCCEEDED, FAILED)
                and not _is_late(row, self._ticked_us)
            ):
                self._saw(row)
                found.append(uid)
        return found

    def give(self, pod: Pod, uid: str) -> None:
        """A pod without a node uses a reservation from now on."""
        row = self._cluster.reservations[uid]
        self.known.given_parts[pod.uid] = ReservationShare(uid, requested(pod.demand))
        self._set(uid, self._allocated(row, self.known.statuses[uid], pod.uid))

    def give_back(self, pod: str) -> None:
        """Take back the part of a pod not bound after all."""
        given = self.known.given_parts.pop(pod, None)
        status = self.known.statuses.get(given.reservation) if given is not None else None
        if given is not None and status is not None and pod in status.owners:
            self._set(given.reservation, rules.unreserved(status, pod, given.request))

    def hold(self, uid: str, node: str) -> None:
        """A pass places a reservation. It holds its room there, less the room of its replaced pod."""
        row, status = self._cluster.reservations[uid], self.known.statuses[uid]
        left = rules.left(row.reserved, status.allocated)
        self._columns.place(_held(row, node, left), node)

    def take_place(self, uid: str, node: str) -> None:
        """The replaced pod of a node owns the reservation from now on; nothing without one."""
        row = self._cluster.reservations[uid]
        found = self.known.replaceable(row).get(node)
        if found is not None:
            self.known.given_parts[found.uid] = ReservationShare(uid, requested(found.demand))
            self._set(uid, self._allocated_ahead(self.known.statuses[uid], found.uid))

    def give_place_back(self, uid: str) -> None:
        """A reservation does not get its node after all: its replaced pod owns no part of it."""
        for pod in self.known.statuses[uid].owners:
            self.give_back(pod)

    def _saw(self, row: Reservation) -> None:
        uid, before = row.uid, self.known.statuses.get(row.uid)
        known = before.owners if before is not None else ()
        status = Status(row.phase, row.node, row.reserved)
        for pod in (*known, *row.current_owners):
            found = self._cluster.pods.get(pod)
            if found is not None and holds(found) and self.known.named.may_own(row, found):
                self._own(found, row)
            elif found is not None and row.node and found.node not in ("", row.node):
                # Another program gave it another node than the replaced pod's.
                if self.known.given(pod) == uid:
                    self.give_back(pod)
            if self.known.given(pod) == uid:
                status = self._allocated(row, status, pod)
        is_used_up = before is not None and before.phase == SUCCEEDED and before.node == row.node
        if not is_active(row.phase, row.node):
            # Its owners go on as ordinary pods, without the one it is about to replace.
            owners = status.owners if uid in self._assumed else ()
            status = Status(row.phase, row.node)
            for pod in owners:
                status = self._allocated_ahead(status, pod)
        elif is_used_up and row.allocate_once:
            status = msgspec.structs.replace(status, phase=SUCCEEDED)
        is_late = status.phase != SUCCEEDED and _is_late(row, self._ticked_us)
        self._set(uid, rules.expired(status) if is_late else status)

    def _bound(self, pod: Pod) -> bool:
        """A pod was observed on a node: it uses its part there, and the reservation naming it. Whether the room changed."""
        uid = self.known.given(pod.uid)
        if uid and self.known.statuses[uid].node != pod.node:
            self.give_back(pod.uid)
            uid = ""
        if uid and self.known.statuses[uid].phase == SUCCEEDED:
            self._hold(uid)
            return True
        row = self.known.named.reservation(pod)
        if not uid and row is not None:
            self._own(pod, row)
            self._set(row.uid, self._allocated(row, self.known.statuses[row.uid], pod.uid))
            return True
        return False

    def _own(self, pod: Pod, row: Reservation) -> None:
        """The status of a reservation names a pod as its owner, or did before."""
        given = self.known.given_parts.get(pod.uid)
        if given is None or given.reservation != row.uid:
            if given is not None:
                self.give_back(pod.uid)
            self.known.given_parts[pod.uid] = ReservationShare(row.uid, requested(pod.demand))

    def _gone(self, pod: Pod) -> bool:
        if not pod.node:
            # A pod without a bind has used nothing up.
            self.give_back(pod.uid)
            return False
        given = self.known.given_parts.pop(pod.uid, None)
        if given is None:
            return False
        status = self.known.statuses[given.reservation]
        gone = rules.unreserved if status.phase in WITHOUT_NODE else rules.owner_gone
        self._set(given.reservation, gone(status, pod.uid, given.request))
        return True

    def _end(self, row: Reservation) -> None:
        self.known.remove(row)
        self._columns.take_back(row.uid)

    def _allocated(self, row: Reservation, status: Status, pod: str) -> Status:
        request = self.known.given_parts[pod].request
        return rules.allocated(status, pod, request, once=row.allocate_once)

    def _allocated_ahead(self, status: Status, pod: str) -> Status:
        """A reservation without a node uses nothing up."""
        return rules.allocated(status, pod, self.known.given_parts[pod].request, once=False)

    def _set(self, uid: str, status: Status) -> None:
        self.known.record(self._cluster.reservations[uid], status)
        self._hold(uid)

    def _hold(self, uid: str) -> None:
        row, status = self._cluster.reservations[uid], self.known.statuses[uid]
        if is_active(status.phase, status.node) or _may_return(row, status, self._cluster.pods):
            left = rules.left(status.allocatable, status.allocated)
            self._columns.place(_held(row, status.node, left), status.node)
        elif uid in self._assumed and status.phase in WITHOUT_NODE:
            self.hold(uid, self._assumed[uid].node)
        else:
            self._columns.take_back(uid)


def _is_late(row: Reservation, now_us: int) -> bool:
    return is_over(row.phase, now_us, row.created_us, row.ttl_us, row.expires_us)


def _has_left(before: Pod, after: object) -> bool:
    """Whether a pod left its node, or ended before it had one."""
    return holds(before) or not isinstance(after, Pod) or after.is_ended


def _may_return(row: Reservation, status: Status, known: Mapping[str, Pod]) -> bool:
    """Whether its single use is by an unbound pod, and may become another's."""
    is_used_up = status.phase == SUCCEEDED and is_active(row.phase, row.node)
    pods = (known.get(pod) for pod in status.owners)
    return is_used_up and any(pod is not None and not pod.node for pod in pods)


def _held(row: Reservation, node: str, amounts: Amounts) -> Pod:
    """The pod holding room on a node."""
    demand = {f"requests.{name}": amount for name, amount in amounts.items()}
    return Pod(
        row.uid, "", row.name, row.version, row.seen_us, "Pending", node, False, row.created_us, HIGHEST, "", None, {}, {}, demand
    )  # fmt: skip

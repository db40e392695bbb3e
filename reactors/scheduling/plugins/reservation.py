"""Reservation: pods of a reservation's owners may use its room; all other pods may not.

A pod may also be placed outside its reservations. Inside one, the reservation needs the room by its policy, and the node the pod's
room beyond it. A pod uses one reservation.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/reservation; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from projections.cluster.reservations import Reservation as Row
from projections.cluster.reservations import requested
from reactors.scheduling.columns.table import Columns, Ints, Rows
from reactors.scheduling.framework.bind import Outcomes
from reactors.scheduling.framework.bind_cycle import BindCycle
from reactors.scheduling.framework.contract import ONE_CHANGE, SKIP, Cycle, Refused, Status, scaled
from reactors.scheduling.framework.reserve import reserve
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.messages import RESERVATION_TAKEN
from reactors.scheduling.reservations import rules
from reactors.scheduling.reservations.state import Reservations

REASON = "node(s) no reservation(s) with room for the pod"
ELSEWHERE = "node(s) reservation names another node"
#: On a pod with a reservation: the reservation's name and uid.
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
#: The score of the node whose reservation comes first by its label.
FIRST = 1000

Amounts = Mapping[str, int]

#: The key of the filter's results for each node in a cycle's data.
_ROOMS = "Reservation/rooms"


class Reservation(msgspec.Struct, frozen=True):
    """Reservations for the framework. Without a state of reservations, as at the check of a file, there are none."""

    name: ClassVar[str] = "Reservation"
    is_local: ClassVar[bool] = False
    reads_reservations: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE})

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """The reservations usable by the pod, by row; for a reservation its required node."""
        own = cycle.context.reservations
        cycle.data.pop(self.name, None)
        if own is None:
            return SKIP
        if rules.RESERVATION_NODE in cycle.pod.annotations and own.known.is_stand_in(cycle.pod.uid):
            return None
        found: dict[int, list[Row]] = {}
        for one in own.known.usable(cycle.pod):
            row = cycle.columns.row_of.get(own.known.status(one.uid).node)
            if row is not None:
                found.setdefault(row, []).append(one)
        if not found:
            return SKIP
        cycle.data[self.name] = found
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without room for the pod, neither outside the lifted reservations nor in one of them."""
        columns, own = cycle.columns, cycle.context.reservations
        if own is None:
            return ()
        at = np.arange(len(columns.nodes))[rows]
        if own.known.is_stand_in(cycle.pod.uid):
            named = cycle.pod.annotations.get(rules.RESERVATION_NODE, "")
            others = np.array([columns.names[row] != named for row in at.tolist()], np.bool_)
            return [Refused(ELSEWHERE, others, others)] if named and others.any() else ()
        refused = np.zeros(at.size, np.bool_)
        rooms: dict[int, _Room] = {}
        matched = self._matched(cycle)
        for place, row in enumerate(at.tolist()) if matched else ():
            if row in matched:
                rooms[row] = self._room(cycle, own, row)
                refused[place] = not rooms[row].takes
        cycle.data[_ROOMS] = rooms
        return [Refused(REASON, refused)] if refused.any() else ()

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Room in a reservation, or outside."""
        return f"free room of node {cycle.columns.names[row]}, or of a reservation there that is for the pod"

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """Only pods with usable reservations are scored."""
        return None if self._matched(cycle) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The fill of the used reservation; the highest score for the first one by its label."""
        columns, own = cycle.columns, cycle.context.reservations
        assert own is not None
        at = np.arange(len(columns.nodes))[rows]
        # The filter was called for each of these nodes, and left them here.
        rooms: dict[int, _Room] = cycle.data[_ROOMS]
        used = {row: one.best for row, one in sorted(rooms.items()) if one.best is not None}
        first = rules.preferred((one.uid, str(one.order)) for one in used.values())
        scores = np.zeros(at.size, np.int64)
        for place, row in enumerate(at.tolist()):
            if row in used:
                one = used[row]
                scores[place] = FIRST if one.uid == first else _score(cycle, own, one)
        return scores

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """As parts of the best."""
        return scaled(scores)

    def reserve(self, cycle: Cycle, row: int) -> str:
        """A reservation holds its room; a pod in one gets its part, no longer held by the reservation."""
        own, columns, pod = cycle.context.reservations, cycle.columns, cycle.pod
        if own is None or own.known.given(pod.uid):
            return ""
        if own.known.is_stand_in(pod.uid):
            if not own.known.is_assumed(pod.uid):
                own.take_place(pod.uid, columns.names[row])
            own.hold(pod.uid, columns.names[row])
            return ""
        if row not in self._matched(cycle):
            return ""
        room = self._room(cycle, own, row)
        if room.best is not None:
            own.give(pod, room.best.uid)
        return "" if room.takes else RESERVATION_TAKEN

    def unreserve(self, cycle: Cycle) -> None:
        """The reservation holds its given part again."""
        own = cycle.context.reservations
        if own is not None and own.known.is_stand_in(cycle.pod.uid):
            own.give_place_back(cycle.pod.uid)
        elif own is not None:
            own.give_back(cycle.pod.uid)

    async def bind_pod(self, cycle: BindCycle) -> Outcomes | None:
        """Write a reservation's node into its status; nothing for a pod."""
        if not cycle.placement.is_reservation:
            return None
        amounts = requested(cycle.known.pod.demand)
        return await reserve(cycle.cluster, cycle.placement, amounts)

    def annotations(self, cycle: Cycle, row: int, cards: Sequence[int]) -> Mapping[str, str]:
        """The reservation used by the pod."""
        own = cycle.context.reservations
        used = own.known.used(cycle.pod.uid) if own is not None else None
        if used is None:
            return {}
        return {ALLOCATED: msgspec.json.encode({"name": used.name, "uid": used.uid}).decode()}

    def _matched(self, cycle: Cycle) -> dict[int, list[Row]]:
        found: dict[int, list[Row]] = cycle.data.get(self.name, {})
        return found

    def _room(self, cycle: Cycle, own: Reservations, row: int) -> _Room:
        """The room of a node for a pod, whether the pod is counted there already, and whether reservations are lifted."""
        columns, request = cycle.columns, requested(cycle.pod.demand)
        here = self._matched(cycle)[row]
        held: dict[str, int] = {}
        for one in here:
            status = own.known.status(one.uid)
            for name, amount in rules.left(status.allocatable, status.allocated).items():
                held[name] = held.get(name, 0) + amount
        lifted = [one for one in here if one.uid in columns.lifted]
        is_counted = columns.counted(cycle.pod.uid) is not None
        slots = int(columns.most_pods[row] - columns.pods[row]) - len(lifted) + is_counted
        free = {name: self._free(columns, row, name) for name in request.keys() | held.keys()}
        for one in lifted:
            status = own.known.status(one.uid)
            for name, amount in rules.left(status.allocatable, status.allocated).items():
                free[name] -= amount
        if is_counted:
            for name, amount in request.items():
                free[name] += amount
        # Another plugin has checked the resources held by no reservation.
        beside = {name: amount for name, amount in request.items() if held.get(name)}
        fits = slots > 0 and all(amount <= free[name] for name, amount in beside.items())
        usable = []
        for one in here:
            status = own.known.status(one.uid)
            rest = rules.from_node(
                one.allocate_policy, one.restricted, request, status.allocatable, status.allocated
            )
            if rest is not None and slots + one.allocate_once > 0:
                if all(amount <= free[name] for name, amount in rest.items() if name in beside):
                    usable.append(one)
        first = rules.preferred((one.uid, str(one.order)) for one in usable)
        best = min(
            usable,
            key=lambda one: (one.uid != first, -_score(cycle, own, one), one.uid),
            default=None,
        )
        return _Room(fits or best is not None, best)

    def _free(self, columns: Columns, row: int, name: str) -> int:
        at = columns.resources.names.get(name)
        # A resource offered by no node has no column.
        return int(columns.resources.free[row, at]) if at is not None else 0


class _Room(msgspec.Struct, frozen=True):
    """Whether a node takes a pod, and the reservation used there; None = it uses none."""

    takes: bool
    best: Row | None


def _score(cycle: Cycle, own: Reservations, row: Row) -> int:
    status = own.known.status(row.uid)
    return rules.score(requested(cycle.pod.demand), status.allocatable, status.allocated)

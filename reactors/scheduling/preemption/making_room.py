"""Victims for a whole gang: enough for all its needed pods, or none. Pure: all trials on the columns are undone.

The needed pods are placed one after the other, each in addition to those before it. For one refused by every node, room is made as
for a single pod, by kube-scheduler's order, after the others' placements: so the number of victims stays small. Unequal pods may
find no room that way though all of them would fit: then all possible victims are removed everywhere, and the gang is placed there.
In both cases victims are put back from the most important to the least while every pod of the gang finds a node, and a gang among
them comes back as a whole or not at all. If a disruption budget protects a remaining victim, no pod is evicted.

A gang in need of one domain is tried in the few domains with the most room for it without the less important pods; the cheapest is
taken. A gang's mere preferences are ignored: fewer victims count more.

Refused: to remove all possible victims first and always (a gang would then be placed on the emptied nodes, not in free room); to
try every set of victims (there are too many, and each try places a whole gang).

Source: Kubernetes, "Workload-Aware Preemption" and "Pod Priority and Preemption"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import msgspec

from projections.cluster import Pod
from reactors.reclaim.disruption import known
from reactors.scheduling.columns.table import Bools, Columns
from reactors.scheduling.framework.contract import Alike, Cycle, Preemption, Sparing, Together
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.preemption.victims import Victims, cost, importance, protected
from reactors.scheduling.queueing.queue import Queued

#: Most missing pods of a gang with a search for victims.
MOST_SEATS = 100
#: Most steps of a search; beyond it, no pod is evicted. A step checks a victim (some 35 us of CPU), or is half a try of a node.
MOST_STEPS = 100_000


class Seat(msgspec.Struct):
    """A pod of the gang on its possible node."""

    framework: Framework
    queued: Queued
    cycle: Cycle
    node: str
    #: Whether its fit depends on its node only.
    is_local: bool


class GangRoom:
    """One search for a gang with waiting ``members``. The columns are unchanged at its end."""

    def __init__(
        self,
        plugin: Together,
        names: Sequence[str],
        members: Sequence[tuple[Framework, Queued]],
        sequence: int,
        sparing: Sparing,
    ) -> None:
        self._plugin, self._names, self._members = plugin, names, members
        self._context = members[0][0].context
        self._columns: Columns = self._context.columns
        self._sequence = sequence
        self._sparing = msgspec.structs.replace(
            sparing, may_go=lambda pod: self._looked() and sparing.may_go(pod)
        )
        self._steps = 0
        self._budgets = known(self._columns.facts.disruption_budgets())
        self._seats: dict[str, Seat] = {}
        self._is_broken = False
        self._gone: dict[str, Pod] = {}
        self._rules = Victims(self._context, members[0][1].pod, sparing.may_go)
        self._set_of = {
            uid: name for name in names for uid in plugin.members((name,), self._context)
        }

    @property
    def steps(self) -> int:
        """The steps of the search so far."""
        return self._steps

    @property
    def _is_spent(self) -> bool:
        return self._steps >= MOST_STEPS

    def _looked(self) -> bool:
        """Count the check of a possible victim; False = the search is over."""
        self._steps += 1
        return not self._is_spent

    def find(self, alike: Callable[[], Sequence[Alike]]) -> dict[str, Preemption]:
        """By the uid of each needed pod its node and its victims; {} for no evictions.

        ``alike``: the members by their needs, for sums over domains.
        """
        best: tuple[tuple[int, ...], dict[str, Preemption]] | None = None
        for domain in self._domains(alike):
            self._columns.domain = domain
            try:
                found = self._tried(self._one_by_one) or self._tried(self._all_at_once)
                price = cost(self._victims()) if found else ()
                if found and (best is None or price < best[0]):
                    best = price, self._preemptions()
            finally:
                self._end()
                self._columns.domain = None
        return best[1] if best is not None else {}

    def _domains(self, alike: Callable[[], Sequence[Alike]]) -> Sequence[Bools | None]:
        if len(self._names) > 1 or not self._plugin.must_be_near(self._names[0], self._context):
            return (None,)
        for pod in self._candidates():
            self._lift(pod)
        try:
            return self._plugin.domains(self._names[0], alike, self._context)[0]
        finally:
            self._end()

    def _tried(self, place: Callable[[], bool]) -> bool:
        """Whether the gang has room after some evictions; the columns are restored if not."""
        if place():
            self._spare(self._units())
            violating = protected(self._victims(), self._budgets)
            if self._gone and not violating and not self._is_broken and not self._is_spent:
                return True
        self._end()
        return False

    # a seat for each

    def _one_by_one(self) -> bool:
        in_vain: set[Hashable] = set()
        for framework, one in self._needed():
            if self._sits(framework, one):
                continue
            cycle = Cycle(one.pod, self._context)
            kind = framework.kind(cycle)
            framework.filtering.pre_filter(cycle)
            found = None
            if kind not in in_vain:
                found = framework.post_filter(cycle, self._sequence, self._sparing)
            for victim in found.victims if found is not None and found.node else ():
                self._lift(victim)
            if found is None or not found.node or not self._sits(framework, one):
                in_vain.add(kind)
        return not any(True for _ in self._needed())

    def _all_at_once(self) -> bool:
        for pod in self._candidates():
            self._lift(pod)
        for framework, one in self._needed():
            self._sits(framework, one)
        return not any(True for _ in self._needed())

    def _needed(self) -> Iterator[tuple[Framework, Queued]]:
        """The members without a node, while their sets need them."""
        left = {name: self._plugin.lacking(name, self._context) for name in self._names}
        for uid in self._seats:
            left[self._set_of[uid]] -= 1
        for framework, one in self._members:
            name = self._set_of[one.pod.uid]
            if one.pod.uid not in self._seats and left[name] > 0:
                yield framework, one
                left[name] -= one.pod.uid in self._seats

    def _candidates(self) -> list[Pod]:
        """The possible victims for the least important member."""
        framework, one = min(self._members, key=lambda member: member[1].pod.priority)
        cycle = Cycle(one.pod, self._context)
        framework.filtering.pre_filter(cycle)
        sparing = framework.spared(cycle, self._sparing)
        if sparing is None:
            return []
        victims = Victims(self._context, one.pod, sparing.may_go)
        return [pod for row in range(len(self._columns.nodes)) for pod in victims.on(row)]

    def _sits(self, framework: Framework, one: Queued) -> bool:
        """Whether a node takes a pod now; it is counted there."""
        cycle = Cycle(one.pod, self._context)
        # All nodes are evaluated, so it takes longer with many.
        self._steps += 2 + len(self._columns.nodes) // 500
        choice = framework.choose(cycle, self._sequence)
        return choice.row >= 0 and self._seat(framework, one, cycle, choice.row)

    def _seat(self, framework: Framework, one: Queued, cycle: Cycle, row: int) -> bool:
        columns, pod = self._columns, one.pod
        cards, cpus = framework.cards(cycle, row), framework.cpus(cycle, row)
        columns.place(pod, columns.names[row], cards, cpus)
        if framework.reserve(cycle, row):
            framework.unreserve(cycle)
            columns.take_back(pod.uid)
            return False
        is_local = framework.filtering.is_local(cycle)
        self._seats[pod.uid] = Seat(framework, one, cycle, columns.names[row], is_local)
        return True

    def _rise(self, uid: str) -> None:
        seat = self._seats.pop(uid, None)
        if seat is not None:
            seat.framework.unreserve(seat.cycle)
            self._columns.take_back(uid)

    # pods put back

    def _units(self) -> list[list[Pod]]:
        """The victims, the most important first, after those under a budget; pods evicted or kept together are one unit."""
        victims = self._victims()
        spared = {one.uid for one in protected(victims, self._budgets)}
        left, found = dict(self._gone), list[list[Pod]]()
        for pod in victims:
            core = self._rules.core(pod.uid)
            together = core if pod.uid in core and self._gone.keys() >= {*core} else [pod.uid]
            if unit := [left.pop(uid) for uid in together if uid in left]:
                found.append(unit)

        def order(unit: Sequence[Pod]) -> tuple[object, ...]:
            is_free = not any(pod.uid in spared for pod in unit)
            highest, start = max(pod.priority for pod in unit), min(pod.started_us for pod in unit)
            return is_free, -highest, 0 if len(unit) == 1 else -len(unit), start, unit[0].uid

        return sorted(found, key=order)

    def _spare(self, units: Sequence[Sequence[Pod]]) -> None:
        """Put back the pods not needed as victims: many at once if possible."""
        if (
            not units
            or self._is_spent
            or self._stay([pod for unit in units for pod in unit])
            or len(units) == 1
        ):
            return
        middle = len(units) // 2
        self._spare(units[:middle])
        self._spare(units[middle:])

    def _stay(self, pods: Sequence[Pod]) -> bool:
        """Whether every member finds a node beside them; then they are victims no more."""
        for pod in pods:
            del self._gone[pod.uid]
            self._columns.put_back(pod.uid)
        nodes = {placed.node for pod in pods if (placed := self._columns.counted(pod.uid))}
        before = {
            uid: one for uid, one in self._seats.items() if one.node in nodes or not one.is_local
        }
        is_whole = all(self._rules.keeps(pod.uid, self._gone) for pod in pods)
        if is_whole and (self._sit_there(before) or self._sit_anywhere(before)):
            return True
        for pod in pods:
            self._lift(pod)
        self._is_broken |= not self._sit_there(before)
        return False

    def _sit_there(self, seats: Mapping[str, Seat]) -> bool:
        """Whether pods fit on these nodes, placed anew in their order; those after the first misfit then have no node."""
        for uid in seats:
            self._rise(uid)
        for one in seats.values():
            self._steps += 2
            cycle, row = Cycle(one.queued.pod, self._context), self._columns.row_of[one.node]
            is_taken = not one.framework.refuses(cycle, row)
            if not is_taken or not self._seat(one.framework, one.queued, cycle, row):
                return False
        return True

    def _sit_anywhere(self, seats: Mapping[str, Seat]) -> bool:
        for uid in seats:
            self._rise(uid)
        return all(self._sits(one.framework, one.queued) for one in seats.values())

    # results

    def _victims(self) -> tuple[Pod, ...]:
        """The most important first."""
        return tuple(sorted(self._gone.values(), key=importance))

    def _preemptions(self) -> dict[str, Preemption]:
        found: dict[str, list[Pod]] = {uid: [] for uid in self._seats}
        on = {seat.node: uid for uid, seat in reversed(self._seats.items())}
        first = next(iter(self._seats))
        for pod in self._victims():
            placed = self._columns.counted(pod.uid)
            found[on.get(placed.node if placed else "", first)].append(pod)
        return {uid: Preemption(self._seats[uid].node, tuple(pods)) for uid, pods in found.items()}

    def _lift(self, pod: Pod) -> None:
        self._gone[pod.uid] = pod
        self._columns.lift(pod.uid)

    def _end(self) -> None:
        """Restore the columns."""
        for uid in reversed(list(self._seats)):
            self._rise(uid)
        for uid in sorted(self._gone):
            self._columns.put_back(uid)
        self._gone.clear()
        self._is_broken = False

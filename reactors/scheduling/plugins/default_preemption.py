"""DefaultPreemption: evicts less important pods so another pod fits.

On each node with possibly helpful evictions, it removes all pods of lower priority. If the pod then fits, it puts them back: first
the pods under a disruption budget, each time from the most important to the least. A pod no longer fitting is a victim. Its whole
gang is a victim if too few of its pods would be left (:mod:`reactors.scheduling.preemption.victims`). Of several nodes it takes
one by: fewest protected victims, lowest highest priority, lowest sum of priorities, fewest victims, latest start of the most
important victims, and at last a seed.

All trials change the columns and are undone. If filters read one node alone, many nodes are tried at once.

Source: Kubernetes, "Pod Priority and Preemption"; kube-scheduler's DefaultPreemption.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from projections.cluster import Pod
from reactors.reclaim.disruption import known
from reactors.scheduling.columns.table import Bools, Columns, Ints
from reactors.scheduling.framework.contract import Cycle, Filters, Preemption, Refused, Sparing
from reactors.scheduling.framework.seeds import seed
from reactors.scheduling.preemption.victims import Victims, cost, importance, protected

NEVER = "not eligible due to preemptionPolicy=Never."
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_HELP = "Preemption is not helpful for scheduling"


class DefaultPreemption(msgspec.Struct, frozen=True):
    """The search for victims. It ends with at least ``least`` candidates, and ``least_percent`` of the nodes to try."""

    name: ClassVar[str] = "DefaultPreemption"
    is_local: ClassVar[bool] = False

    least_percent: int = 10
    least: int = 100

    def post_filter(
        self, cycle: Cycle, filters: Filters, sequence: int, sparing: Sparing
    ) -> Preemption:
        """The node and the victims; only a message if preemption would not help."""
        pod, columns = cycle.pod, cycle.columns
        if pod.constraints is not None and pod.constraints.never_preempts:
            return Preemption(message=f"preemption: {NEVER}")
        rows = np.flatnonzero(_helped(filters.first_refusals(cycle, _all(columns)), columns))
        reasons = _Counts()
        reasons.add(NO_HELP, len(columns.nodes) - rows.size)
        if rows.size and min(columns.priorities, default=pod.priority) >= pod.priority:
            reasons.add(NO_VICTIMS, rows.size)
            rows = rows[:0]
        found = self._candidates(cycle, filters, sparing, rows, reasons, seed(pod.uid, sequence))
        if not found:
            return Preemption(message=f"preemption: {reasons.message(len(columns.nodes))}")
        return _best(found, seed(pod.uid, sequence))

    def _candidates(
        self,
        cycle: Cycle,
        filters: Filters,
        sparing: Sparing,
        rows: Ints,
        reasons: _Counts,
        start: int,
    ) -> list[Preemption]:
        if not rows.size:
            return []
        enough = max(self.least, rows.size * self.least_percent // 100)
        at_once = min(enough, rows.size) if filters.is_local(cycle) else 1
        rows = np.roll(rows, -(start % rows.size))
        found: list[Preemption] = []
        for first in range(0, rows.size, at_once):
            if len(found) >= enough and any(not one.violating for one in found):
                break
            some = np.sort(rows[first : first + at_once])
            trial = _Trial(cycle, filters, sparing, some, reasons)
            try:
                found += trial.run()
            finally:
                trial.end()
        return found


class _Counts:
    """Numbers of nodes by reason."""

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}

    def add(self, reason: str, nodes: int) -> None:
        if nodes:
            self._nodes[reason] = self._nodes.get(reason, 0) + nodes

    def message(self, nodes: int) -> str:
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in self._nodes.items()))
        return f"0/{nodes} nodes are available: {listed}."


class _Trial:
    """Removes pods from some nodes, and puts back the pods not needed as victims."""

    def __init__(
        self, cycle: Cycle, filters: Filters, sparing: Sparing, rows: Ints, reasons: _Counts
    ) -> None:
        self._pod, self._context, self._filters = cycle.pod, cycle.context, filters
        self._columns = cycle.columns
        self._is_protected = sparing.is_protected
        self._rows, self._reasons = rows, reasons
        self._budgets = known(cycle.columns.facts.disruption_budgets())
        self._victims = Victims(cycle.context, cycle.pod, sparing.may_go)
        # Victims chosen before, for several pods at once: these use up the budgets, too.
        going = [cycle.columns.counted(uid) for uid in sorted(cycle.columns.lifted)]
        self._going = [one.pod for one in going if one is not None]
        self._lifted: set[str] = set()

    def run(self) -> Iterator[Preemption]:
        """A candidate for each node able to take the pod."""
        lower = {row: self._victims.on(row) for row in self._rows.tolist()}
        self._reasons.add(NO_VICTIMS, sum(not pods for pods in lower.values()))
        for pods in lower.values():
            for one in pods:
                self._lift(one)
        rows = self._fitting([row for row, pods in lower.items() if pods], is_first=True)
        orders: dict[int, list[Pod]] = {}
        spared: dict[int, set[str]] = {}
        for row in rows:
            violating = protected([*self._going, *lower[row]], self._budgets)
            spared[row] = {one.uid for one in violating}
            orders[row] = sorted(lower[row], key=lambda one: one.uid not in spared[row])
        for at in range(max(map(len, orders.values()), default=0)):
            tried = [row for row in rows if len(orders[row]) > at]
            for row in tried:
                self._put_back(orders[row][at])
            fits = set(self._fitting(tried))
            for row in tried:
                if row not in fits:
                    self._lift(orders[row][at])
        for row in rows:
            victims = [one for one in orders[row] if one.uid in self._lifted]
            if victims and (found := self._candidate(row, victims, spared[row])) is not None:
                yield found

    def _candidate(self, row: int, victims: list[Pod], spared: set[str]) -> Preemption | None:
        """The victims of a node with the rest of their gangs; None if a budget protects some of the rest."""
        if beside := self._victims.beside(victims):
            victims = [*victims, *beside]
            spared = {one.uid for one in protected([*self._going, *victims], self._budgets)}
        violating = sum(one.uid in spared for one in victims)
        if violating and self._is_protected:
            return None
        ordered = tuple(sorted(victims, key=importance))
        return Preemption(self._columns.names[row], ordered, violating)

    def end(self) -> None:
        """Restore the columns."""
        for uid in sorted(self._lifted):
            self._columns.put_back(uid)
        self._lifted.clear()

    def _lift(self, pod: Pod) -> None:
        self._columns.lift(pod.uid)
        self._lifted.add(pod.uid)

    def _put_back(self, pod: Pod) -> None:
        self._columns.put_back(pod.uid)
        self._lifted.discard(pod.uid)

    def _fitting(self, rows: list[int], *, is_first: bool = False) -> list[int]:
        """The fitting ones of ``rows``."""
        if not rows:
            return []
        fits = np.ones(len(rows), np.bool_)
        cycle = Cycle(self._pod, self._context)
        for one in self._filters.first_refusals(cycle, np.array(rows, np.int64)):
            fits &= ~one.nodes
            if is_first:
                self._reasons.add(one.reason, int(one.nodes.sum()))
        return [row for row, fit in zip(rows, fits.tolist(), strict=True) if fit]


def _all(columns: Columns) -> Ints:
    return np.arange(len(columns.nodes), dtype=np.int64)


def _helped(refused: Sequence[Refused], columns: Columns) -> Bools:
    """Nodes refused for a reason curable by evictions."""
    found = np.zeros(len(columns.nodes), np.bool_)
    for one in refused:
        found |= one.nodes
    for one in refused:
        if one.unresolvable is not None:
            found &= ~one.unresolvable
    return found


def _best(found: Sequence[Preemption], number: int) -> Preemption:
    costs = [cost(one.victims, one.violating) for one in found]
    equal = [one for one, price in zip(found, costs, strict=True) if price == min(costs)]
    return equal[number % len(equal)]

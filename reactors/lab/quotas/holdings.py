"""Holdings of one tree's quotas under trial, beside the record: running workloads, their ends, and spending of budgets.

Pure but for its own state.

Source: docs/lab.md.
"""

from __future__ import annotations

import heapq

import msgspec

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.errors import HistoryDivergedError
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    QuotaDeclared,
    Release,
    TreeMetered,
)
from projections.quota_trees import Tree
from projections.quota_trees.tree import Fact
from reactors.lab.quotas.burning import Burning
from reactors.lab.quotas.shape import HeldTime, Limits, Lives, amounts

#: A quota, and an object charged to it.
Place = tuple[str, str]


class Holdings:
    """The holdings of one tree under trial."""

    def __init__(self, name: str, tried: Limits, lives: Lives) -> None:
        self.tree = Tree(name)
        self._recorded = Tree(name)
        self._burning = Burning(self.tree, self._recorded)
        self._tried, self._lives = tried, lives
        #: Charges on record and not under trial.
        self.out: set[Place] = set()
        #: Charges under trial only.
        self._runs: dict[Place, HeldTime] = {}
        #: Times of ends or checks of these quotas; "" = nothing ends.
        self._moments: list[tuple[int, str, str]] = []
        self._touched: set[str] = set()
        self.held: list[HeldTime] = []

    def on_record(self, fact: Fact, event: Event) -> Fact:
        """The next entry of the journal, as under trial: only budgets and limits can change it."""
        tried = fact
        if isinstance(fact, TreeMetered):
            tried = self._burning.metered(fact)
            for meter in fact.meters:
                self.wake(meter.resets_s * SECOND_US, meter.quota)
        self._store(self._recorded, fact, event)
        return tried

    def begin(self, event: Event) -> list[str]:
        """Begin the trial: the quotas with other limits."""
        found = [node for node in self.tree.nodes.values() if node.name in self._tried]
        for node in found:
            if node.observed is not None:
                known = QuotaDeclared(
                    number=0, quota=node.name, uid=node.uid, kind=node.kind, parent=node.parent,
                    stage="observed", verdict="admitted", reason="tried", spec=node.observed, settles=False,
                )  # fmt: skip
                self.declared(known, event)
        return [node.name for node in found]

    def declared(self, fact: QuotaDeclared, event: Event) -> None:
        """Declare a quota as on record."""
        tried = self._tried.get(fact.quota)
        self.apply(fact if tried is None else tried.declared(fact), event)

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold an entry of the tree under trial."""
        self._store(self.tree, fact, event)

    def burn(self, at_us: int, event: Event) -> None:
        """Burn budgets at the rate of their quotas' charges, once all entries of this moment are read."""
        for quota in sorted(self._touched):
            metered = self._burning.changed(quota, at_us)
            if metered is not None:
                self.apply(metered, event)
        self._touched.clear()

    # running workloads

    def run(
        self,
        again: AdmissionDecided,
        event: Event,
        runs_us: int,
        *,
        is_charged: bool = True,
        counts: bool = True,
    ) -> None:
        """Charge a workload admitted under trial, for so long; 0 = to the end.

        Without ``is_charged`` it blocks no other workload and burns no budget. Without ``counts`` its hours are not added up.
        """
        place = (again.quota, again.uid)
        if is_charged:
            self.apply(again, event)
        until_us = event.time_us + runs_us if runs_us else 0
        if until_us:
            heapq.heappush(self._moments, (until_us, *place))
        self._runs[place] = _held(again, event.time_us, until_us, is_saved=False)
        if counts:
            self.held.append(self._runs[place])

    def leave_out(self, fact: AdmissionDecided, at_us: int) -> None:
        """Leave out a workload admitted on record only."""
        self.out.add((fact.quota, fact.uid))
        life = self._lives.at(fact.quota, fact.uid, at_us)
        self.held.append(_held(fact, life.from_us, life.until_us, is_saved=True))

    def stop(self, place: Place, event: Event) -> None:
        """End a workload under trial, before its end on record if it runs as there."""
        quota, uid = place
        run = self._runs.pop(place, None)
        if run is not None:
            run.until_us = event.time_us
        else:
            self.out.add(place)
            until_us = self._lives.at(quota, uid, event.time_us).until_us
            demand = self.tree.nodes[quota].grants[uid].demand
            self.held.append(HeldTime(quota, True, *amounts(demand), event.time_us, until_us))
        self.apply(AdmissionReleased(number=0, releases=(Release(quota, uid, "tried"),)), event)

    def released(self, fact: AdmissionReleased, event: Event) -> list[str]:
        """Release a charge as on record: the quotas with new room."""
        left = []
        for one in fact.releases:
            node = self.tree.nodes.get(one.quota)
            grant = node.grants.get(one.uid) if node is not None else None
            if grant is None or (one.quota, one.uid) in self.out:
                continue
            # Under trial its charge may be smaller than on record.
            charge = {key: min(n, grant.charge.get(key, 0)) for key, n in one.charge.items()}
            left.append(msgspec.structs.replace(one, charge={k: n for k, n in charge.items() if n}))
        if left:
            self.apply(msgspec.structs.replace(fact, releases=tuple(left)), event)
        return sorted({one.quota for one in left})

    # time

    def wake(self, at_us: int, quota: str) -> None:
        """Schedule a wake-up of a quota; 0 = never."""
        if at_us:
            heapq.heappush(self._moments, (at_us, quota, ""))

    def passed(self, event: Event) -> tuple[Event, str, str] | None:
        """The next moment up to an event: the event then, the quota, and the ended workload, "" = none; None = no more."""
        while self._moments and self._moments[0][0] <= event.time_us:
            at_us, quota, uid = heapq.heappop(self._moments)
            at = msgspec.structs.replace(event, time_us=at_us)
            run = self._runs.get((quota, uid))
            if uid and (run is None or run.until_us != at_us):
                # It ran at another time.
                continue
            if uid:
                self.stop((quota, uid), at)
            return at, quota, uid
        return None

    def _store(self, tree: Tree, fact: Fact, event: Event) -> None:
        if isinstance(fact, AdmissionReleased):
            self._touched.update(one.quota for one in fact.releases)
        elif isinstance(fact, AdmissionDecided | QuotaDeclared):
            self._touched.add(fact.quota)
        elif tree is self._recorded:
            self._touched.update(meter.quota for meter in fact.meters)
        fact = msgspec.structs.replace(fact, number=tree.number + 1)
        try:
            tree.apply(fact, event.sequence, event.time_us)
        except HistoryDivergedError:
            # Every reader skips it.
            tree.skip(event.sequence)


def _held(fact: AdmissionDecided, from_us: int, until_us: int, *, is_saved: bool) -> HeldTime:
    return HeldTime(fact.quota, is_saved, *amounts(fact.demand), from_us, until_us)

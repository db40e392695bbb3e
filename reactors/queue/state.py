"""All queues of a cluster, folded from the history: waiting workloads, orders for them, ends of running ones.

A fold beside admission's view, and it reads the objects there. Both fold the same history, so the waiting workloads
at a sequence are a function of the history up to it.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import msgspec

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.admissions import AdmissionDecided, AdmissionReleased, Basis
from bus.events.observations import ObjectsListed
from bus.events.pods import PodObserved, PodsListed, PodVanished
from bus.events.priorities import PriorityClassObserved, PriorityClassVanished
from bus.events.queues import QueueOrdered
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.metrics import Counted, Histogram
from projections.engine.parts import Part
from projections.quota_trees import Grant, TreeNode
from reactors.admission.coverage.objects import Object
from reactors.admission.coverage.owners import COVERING
from reactors.admission.deciding.decide import Request
from reactors.admission.deciding.mapping import QuotaRef, types_of
from reactors.admission.state.state import ASKING_FACTS, AdmissionState
from reactors.queue.places import Places, Turn
from reactors.queue.shape import NO_PRIORITY, Running, WaitingWorkload
from reactors.queue.starts import SavedStarts, Start, Starts

#: Upper bounds of the buckets of waits: a second to a week, microseconds.
WAIT_BOUNDS_US = tuple(
    seconds * SECOND_US for seconds in (1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400, 604_800)
)


class SavedQueues(msgspec.Struct):
    """The queues in a snapshot."""

    _held: set[str]
    _moved: dict[str, int | None]
    _stopped: set[str]
    _released: dict[str, int]
    _passed: dict[str, str]
    starts: SavedStarts
    _returning: set[str]
    counted: dict[str, Counted]
    returned: int
    changes: int


class QueueState(Part):
    """Follows one cluster; the view must have folded each event before it.

    Only events change it, so it is a function of the history. It forgets deleted workloads.
    """

    Saved = SavedQueues
    derived = frozenset({"_view", "waits", "_places"})

    #: The facts with waiting workloads, their requests and their order.
    orders: ClassVar[tuple[type[Fact], ...]] = (
        WorkloadObserved, WorkloadVanished, ObjectsListed, PriorityClassObserved,
        PriorityClassVanished, QueueOrdered, *ASKING_FACTS,
    )  # fmt: skip
    #: The facts that change it. The entries of a group of decisions are given to it one by one.
    reads: ClassVar[tuple[type[Fact], ...]] = (
        *orders, AdmissionDecided, AdmissionReleased, PodObserved, PodVanished, PodsListed,
    )  # fmt: skip

    def __init__(self, view: AdmissionState) -> None:
        self._view = view
        #: Uids of workloads held now, or until a moment ago.
        self._held: set[str] = set()
        #: By uid: the newest order of a place; and workloads barred from release.
        self._moved: dict[str, int | None] = {}
        self._stopped: set[str] = set()
        #: By uid: the time of its release, and the head that it passed.
        self._released: dict[str, int] = {}
        self._passed: dict[str, str] = {}
        self.starts = Starts(self._is_there)
        #: Workloads to stop, so that they wait again.
        self._returning: set[str] = set()
        #: By quota; and how many had to wait again.
        self.waits: dict[str, Histogram] = {}
        self.returned = 0
        #: Grows with each change that may affect the next release.
        self.changes = 0
        self._places = Places(self._held, self._turn)

    @property
    def counted(self) -> dict[str, Counted]:
        """The counts in the histograms of waits, by quota."""
        return {quota: waits.counted for quota, waits in self.waits.items()}

    def restore(self, saved: SavedQueues) -> None:
        """Load a snapshot into a new state."""
        super().restore(saved)
        counted = saved.counted.items()
        self.waits = {quota: Histogram(WAIT_BOUNDS_US, one) for quota, one in counted}
        self._places.forget()

    @property
    def cluster(self) -> str:
        """The followed cluster."""
        return self._view.cluster

    def apply(self, event: Event) -> None:
        """Fold one event."""
        if event.defect or event.cluster != self._view.cluster:
            return
        if event.type == WorkloadObserved.wire_type:
            self._observed(event.key)
        elif event.type == WorkloadVanished.wire_type:
            self._lost((event.key,))
        elif event.type == ObjectsListed.wire_type:
            self._lost(
                [
                    *self._held,
                    *self._moved,
                    *self._released,
                    *self._stopped,
                    *self._returning,
                    *self.starts.starting,
                    *self.starts.made,
                ]
            )
        elif event.type == AdmissionDecided.wire_type:
            fact = AdmissionDecided.read(event)
            if fact.reason == "released":
                self._let_go(fact, event.time_us)
        elif event.type in (PodObserved.wire_type, PodVanished.wire_type, PodsListed.wire_type):
            # A returned workload waits after its last pod has ended.
            self.changes += bool(self._returning)
            if event.type == PodObserved.wire_type and (self.starts.starting or self.starts.made):
                pod = PodObserved.read(event)
                top = self._view.state.top(pod.owner)
                if top is not None:
                    self.changes += self.starts.see_pod(top.uid, pod.phase, event.time_us)
        elif event.type == AdmissionReleased.wire_type:
            releases = AdmissionReleased.read(event).releases
            self._returning.update(one.uid for one in releases if one.reason == "returning")
            self.returned += sum(one.reason == "returned" for one in releases)
        elif event.type in (PriorityClassObserved.wire_type, PriorityClassVanished.wire_type):
            self.changes += 1
            self._places.forget()
        elif event.type == QueueOrdered.wire_type:
            self._ordered(QueueOrdered.read(event))

    def _observed(self, uid: str) -> None:
        found = self._view.objects.get(uid)
        if found is not None and found.ask.held:
            self._held.add(uid)
            self.changes += 1
        else:
            self._held.discard(uid)
        self._places.count(uid)

    def _turn(self, uid: str) -> Turn | None:
        found = self._view.objects.get(uid)
        is_out = uid not in self._held or uid in self._stopped or self.is_released(uid)
        where = None if is_out or found is None else self._view.place(found.labels, found.namespace)
        return None if found is None or where is None else (where, self.priority(found))

    def _let_go(self, fact: AdmissionDecided, released_us: int) -> None:
        found = self._view.objects.get(fact.uid)
        # A returned workload was counted at its first release.
        if found is not None and fact.uid not in self._released:
            waits = self.waits.setdefault(fact.quota, Histogram(WAIT_BOUNDS_US))
            waits.observe(max(released_us - found.created_us, 0))
        self._released[fact.uid], self._passed[fact.uid] = released_us, fact.passed
        self._returning.discard(fact.uid)
        self._places.count(fact.uid)
        self.starts.release(fact.uid, Start(released_us, fact.quota))

    def _ordered(self, fact: QueueOrdered) -> None:
        if fact.action == "move":
            self._moved[fact.uid] = fact.priority
        elif fact.action == "hold":
            self._stopped.add(fact.uid)
        else:
            self._stopped.discard(fact.uid)
        self._places.count(fact.uid)
        self.changes += 1

    def _lost(self, uids: Iterable[str]) -> None:
        """Forget deleted workloads."""
        for uid in uids:
            if uid not in self._view.objects:
                self._moved.pop(uid, None)
                self._released.pop(uid, None)
                self._passed.pop(uid, None)
                self.starts.forget(uid)
                for known in (self._stopped, self._returning, self._held):
                    known.discard(uid)
                self._places.count(uid)

    # questions

    def ahead(self, where: QuotaRef, priority_class: str) -> int:
        """The number of workloads ahead of a new one of this class."""
        return self._places.ahead(where, self.value(priority_class))

    def held(self) -> Iterator[tuple[Object, QuotaRef | None]]:
        """Every held workload, and its quota."""
        for uid in sorted(self._held):
            found = self._view.objects.get(uid)
            # It may be gone by another reason than an observation of its own.
            if found is None or not found.ask.held:
                continue
            is_ours = found.owner is None or found.owner.kind not in COVERING
            yield found, self._view.place(found.labels, found.namespace) if is_ours else None

    def is_released(self, uid: str) -> bool:
        """Whether it was released, and not told to wait again since."""
        return uid in self._released and uid not in self._returning

    def _is_there(self, uid: str) -> bool:
        """Whether it is held, or runs: neither gone nor ended."""
        found = self._view.objects.get(uid)
        return found is not None and (found.ask.held or bool(found.ask.demand))

    def is_returning(self, uid: str) -> bool:
        """Whether it was told to wait again, and not released since."""
        return uid in self._returning

    def is_ending(self, uid: str) -> bool:
        """Whether pods of it still run, or may still appear: their amounts are not free yet."""
        node = self._view.coverage.lives.node(uid)
        return bool(node.pods or node.awaited)

    def returning(self) -> Iterator[Object]:
        """Running workloads that must wait again."""
        for uid in sorted(self._returning):
            found = self._view.objects.get(uid)
            if found is not None and found.ask.demand:
                yield found

    def waiting(self, found: Object, where: QuotaRef) -> WaitingWorkload:
        """A held workload as the rules take it."""
        request = request_of(found, where)
        if self._view.requires_namespaces:
            # The right to wait for a quota depends on it, so a release records it.
            request = msgspec.structs.replace(request, basis=Basis(mapped_only=True))
        return WaitingWorkload(
            request,
            self.priority(found),
            found.created_us,
            found.ask.deadline_s,
            found.uid in self._stopped,
            where.refusal,
        )

    def priority(self, found: Object) -> int:
        """The ordered priority, else the value of its class, else the default's."""
        ordered = self._moved.get(found.uid)
        if ordered is not None:
            return ordered
        return self.value(found.ask.priority_class)

    def value(self, priority_class: str) -> int:
        """The number of a priority class by name, else the default's."""
        state = self._view.state
        named = state.priority_class(priority_class)
        if named is not None:
            return named.value
        defaults = [one.value for one in state.current_classes() if one.is_default]
        # Where two claim to be the default, Kubernetes takes the lowest.
        return min(defaults, default=NO_PRIORITY)

    def may_preempt(self, priority_class: str) -> bool:
        """Whether a workload with this class, or without one, may preempt those of lower priority."""
        state = self._view.state
        named = state.priority_class(priority_class)
        defaults = [one for one in state.current_classes() if one.is_default]
        if named is None and defaults:
            named = min(defaults, key=lambda one: (one.value, one.name))
        return named is None or named.preempts

    def running(self, node: TreeNode) -> Iterator[Running]:
        """The holders of a quota, with their deadlines."""
        for grant in node.grants.values():
            if grant.charge:
                yield Running(
                    grant.uid, grant.charge, self._ends_us(grant),
                    self._passed.get(grant.uid, ""), grant.uid in self._returning,
                )  # fmt: skip

    def _ends_us(self, grant: Grant) -> int | None:
        found = self._view.objects.get(grant.uid)
        if found is None or found.ask.deadline_s is None:
            return None
        started_us = self._released.get(grant.uid, found.created_us)
        return started_us + found.ask.deadline_s * SECOND_US


def request_of(found: Object, where: QuotaRef) -> Request:
    """The request of a held workload once it runs."""
    return Request(
        where.quota, found.uid, found.kind, found.namespace, found.name, found.ask.wanted,
        types_of(found.labels), operation="RELEASE",
    )  # fmt: skip

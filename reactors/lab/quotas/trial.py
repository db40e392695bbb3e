"""One quota tree under trial: reviews are answered again, and queues are worked off again.

Pure but for its own state.

Source: docs/lab.md; docs/quotas.md; docs/queues.md.
"""

from __future__ import annotations

import itertools

import msgspec

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided, AdmissionReleased, QuotaDeclared
from bus.kube.kinds import GOVERNED
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.tree import Fact
from reactors.lab.comparison import SAME_US
from reactors.lab.quotas.holdings import Holdings, Place
from reactors.lab.quotas.lines import Lines
from reactors.lab.quotas.shape import (
    Arrived,
    Changed,
    Entry,
    Life,
    Limits,
    Lives,
    Queued,
    TreePlayed,
    Withdrawn,
    Workload,
    workload_of,
)
from reactors.lab.rules import Rule
from reactors.queue.shape import NO_PRIORITY, WaitingWorkload
from reactors.rederive.reviews import decided_again, has_basis, is_review, request_of

#: Most workloads of one quota requested again at a release.
MOST_WAITING = 10

_HOLDS = frozenset(kind.kind for kind in GOVERNED if kind.queues)


class TreeTrial:
    """One tree under trial, by one rule. ``first``: up to this event all is as on record."""

    def __init__(self, name: str, tried: Limits, rule: Rule, lives: Lives, first: int) -> None:
        self._holds = Holdings(name, tried, lives)
        self._rule, self._lives, self._first = rule, lives, first
        self._is_tried = first == 0
        self._lines = Lines()
        #: Earlier runs under trial.
        self._moved: set[Place] = set()
        #: Admitted workloads, by their running objects, and the set of all.
        self._let_in: dict[Place, Workload] = {}
        self._running: set[Workload] = set()
        #: By quota and uid: refused workloads with repeated requests.
        self._asking: dict[str, dict[str, tuple[AdmissionDecided, Changed]]] = {}
        self._last: Event | None = None
        self._changed: list[Changed] = []
        self._answers: dict[str, list[int]] = {}

    def apply(self, entry: Entry) -> None:
        """Read the next entry of the history."""
        event, fact = entry.event, entry.fact
        if not self._is_tried and event.sequence > self._first:
            self._is_tried = True
            for quota in self._holds.begin(event):
                self._use_room(quota, event)
        self._last = event
        self._pass_time(event)
        if isinstance(fact, Queued):
            self._queued(fact, event)
        else:
            self._take(self._holds.on_record(fact, event), event)
        self._holds.burn(event.time_us, event)

    def end(self, until_us: int) -> TreePlayed:
        """The findings, after the last entry: some workloads end, or start, after it."""
        if self._last is not None:
            self._pass_time(msgspec.structs.replace(self._last, time_us=until_us))
        for quota, uid in self._lines.waiting():
            waiting, life = self._lines.of(quota, uid), self._lives.last(quota, uid)
            if life is not None and not self._lines.has_returned(uid):
                # It waits at least to the end.
                self._delayed(waiting, self._lives.first(quota, uid), until_us)
        held = [
            msgspec.structs.replace(
                one, until_us=max(min(one.until_us or until_us, until_us), one.from_us)
            )
            for one in self._holds.held
        ]
        answers = {quota: (recorded, tried) for quota, (recorded, tried) in self._answers.items()}
        return TreePlayed(self._rule, tuple(self._changed), tuple(held), answers)

    def _pass_time(self, event: Event) -> None:
        """Process the ends, and the starts caused by them, before an event."""
        while (passed := self._holds.passed(event)) is not None:
            at, quota, uid = passed
            self._lines.end(uid)
            if (quota, uid) in self._let_in:
                self._running.discard(self._let_in.pop((quota, uid)))
            self._use_room(quota, at)
            self._holds.burn(at.time_us, at)

    def _take(self, fact: Fact, event: Event) -> None:
        if isinstance(fact, AdmissionReleased):
            for one in fact.releases:
                if one.reason == "returned" and (one.quota, one.uid) not in self._holds.out:
                    self._lines.stop(one.quota, one.uid)
        if not self._is_tried:
            if isinstance(fact, AdmissionDecided) and fact.reason == "released":
                self._lines.start(fact.quota, fact.uid, event.time_us, fact.passed)
            self._holds.apply(fact, event)
        elif isinstance(fact, QuotaDeclared):
            self._holds.declared(fact, event)
            self._use_room(fact.quota, event)
        elif isinstance(fact, AdmissionReleased):
            for quota in self._holds.released(fact, event):
                self._use_room(quota, event)
        elif isinstance(fact, AdmissionDecided):
            self._decided(fact, event)
        else:
            self._holds.apply(fact, event)
            metered = {meter.quota for meter in fact.meters}
            for quota in sorted(metered if fact.total is None else self._holds.tree.nodes):
                self._use_room(quota, event)

    # answers

    def _decided(self, fact: AdmissionDecided, event: Event) -> None:
        place = (fact.quota, fact.uid)
        if fact.reason == "released" and self._lines.is_known(fact.uid):
            is_first = self._lives.first(*place).from_us == event.time_us
            self._answer(fact.quota, 0, int(is_first))
            self._holds.leave_out(fact, event.time_us)
            return
        if not (is_review(fact) and has_basis(fact)):
            # It existed without a request, or came from a queue without an observed wait.
            if place not in self._holds.out:
                self._holds.apply(fact, event)
            return
        is_create = fact.operation == "CREATE" and fact.child is None
        is_admitted = fact.verdict != "refused"
        if is_create:
            self._answer(fact.quota, 0, int(is_admitted))
        if is_create and (workload_of(fact) in self._running or place in self._moved):
            if is_admitted:
                # It runs already, or has run; a second request is dropped.
                self._holds.leave_out(fact, event.time_us)
        elif place in self._holds.out:
            return
        elif is_create and _would_wait(self._holds.tree, fact):
            self._wait(fact, event)
        else:
            self._answered(fact, event, is_create=is_create)

    def _answered(self, fact: AdmissionDecided, event: Event, *, is_create: bool) -> None:
        again, is_admitted = self._again(fact, event.time_us), fact.verdict != "refused"
        if again.verdict != "refused":
            if is_create:
                self._answer(fact.quota, 1)
            if is_create and not is_admitted:
                self._let(fact, again, event)
            else:
                self._holds.apply(again, event)
        elif is_admitted and is_create:
            self._holds.leave_out(fact, event.time_us)
            changed = self._change("refused", workload_of(fact), fact.uid, event.time_us)
            if self._rule != "never":
                self._asking.setdefault(fact.quota, {})[fact.uid] = (fact, changed)

    def _again(self, fact: AdmissionDecided, at_us: int) -> AdmissionDecided:
        if self._holds.tree.elastic.is_used and fact.basis is not None:
            # The tree itself has the capacity left under trial.
            basis = msgspec.structs.replace(fact.basis, limits=None)
            fact = msgspec.structs.replace(fact, basis=basis)
            self._lines.count(self._holds.tree, at_us)
        found = decided_again(TreeOverlay(self._holds.tree), fact, at_us)
        assert isinstance(found, AdmissionDecided)
        return found

    def _let(self, fact: AdmissionDecided, again: AdmissionDecided, event: Event) -> None:
        """Admit a workload refused on record."""
        workload = workload_of(fact)
        self._change("let_in", workload, fact.uid, event.time_us)
        life = self._lives.later(workload, event.time_us)
        if self._rule == "later" and life is not None:
            self._moved.add((fact.quota, life.uid))
            self._holds.run(again, event, life.runs_us)
        else:
            self._run_unknown(again, event)
        if self._rule != "never":
            self._know((fact.quota, fact.uid), workload)

    def _know(self, place: Place, workload: Workload) -> None:
        """Mark a workload as running, or waiting, under trial only: a second request is dropped."""
        self._let_in[place] = workload
        self._running.add(workload)

    def _run_unknown(self, again: AdmissionDecided, event: Event) -> None:
        """Admit a workload without a run on record. In a quota without ended runs it runs to the end, as its length is unknown."""
        usual_us = self._lives.usual_us(again.quota, self._rule)
        self._holds.run(
            again, event, usual_us, is_charged=self._rule != "longest", counts=self._rule != "never"
        )

    def _answer(self, quota: str, which: int, count: int = 1) -> None:
        self._answers.setdefault(quota, [0, 0])[which] += count

    def _change(self, kind: str, workload: Workload, uid: str, at_us: int) -> Changed:
        changed = Changed(kind, workload, uid, at_us)
        self._changed.append(changed)
        return changed

    # waiting workloads

    def _queued(self, fact: Queued, event: Event) -> None:
        if isinstance(fact, Withdrawn) and self._lives.last(fact.quota, fact.uid) is not None:
            # It has run on record, and may still wait.
            return
        self._lines.apply(fact)
        if isinstance(fact, Arrived):
            self._holds.wake(self._lines.bound_us(self._holds.tree, fact), fact.quota)
        self._use_room(fact.quota, event)

    def _wait(self, fact: AdmissionDecided, event: Event) -> None:
        assert fact.basis is not None
        if fact.verdict != "refused":
            self._holds.leave_out(fact, event.time_us)
        request = msgspec.structs.replace(
            request_of(fact, fact.basis), operation="RELEASE", review="", basis=None
        )
        arrived = Arrived(fact.quota, WaitingWorkload(request, NO_PRIORITY, event.time_us))
        self._know((fact.quota, fact.uid), workload_of(fact))
        self._queued(arrived, event)

    def _use_room(self, quota: str, event: Event) -> None:
        """Use room in a quota, or, for an elastic quota, in any quota of its tree."""
        tree = self._holds.tree
        if not self._is_tried or quota not in tree.nodes:
            return
        for name in sorted(tree.nodes) if tree.elastic.is_used else (quota,):
            self._ask_again(name, event)
            self._work_off(name, event)

    def _ask_again(self, quota: str, event: Event) -> None:
        """Request the refused workloads of a quota again, the oldest first."""
        asking = self._asking.get(quota, {})
        for uid, (fact, changed) in list(itertools.islice(asking.items(), MOST_WAITING)):
            again = self._again(fact, event.time_us)
            if again.verdict == "refused":
                continue
            del asking[uid]
            changed.kind, changed.waited_us = "waited", event.time_us - changed.at_us
            self._answer(quota, 1)
            self._holds.run(again, event, self._lives.at(quota, uid, changed.at_us).runs_us)

    def _work_off(self, quota: str, event: Event) -> None:
        """Start the due workloads of a queue, and return others to it."""
        tree, now_us = self._holds.tree, event.time_us
        self._lines.count(tree, now_us)
        for release in self._lines.releases(tree, quota, now_us):
            self._start(release, event)
        stopped = self._lines.returns(tree, quota, now_us)
        for uid in stopped:
            self._holds.stop((quota, uid), event)
            self._lines.stop(quota, uid)
        for release in self._lines.releases(tree, quota, now_us) if stopped else ():
            self._start(release, event)

    def _start(self, release: AdmissionDecided, event: Event) -> None:
        quota, uid = release.quota, release.uid
        waiting, is_first = self._lines.of(quota, uid), not self._lines.has_returned(uid)
        self._lines.start(quota, uid, event.time_us, release.passed)
        self._answer(quota, 1, int(is_first))
        life = self._lives.last(quota, uid)
        if life is not None:
            if is_first:
                self._delayed(waiting, self._lives.first(quota, uid), event.time_us)
            self._holds.run(release, event, life.runs_us)
            return
        # It never ran on record.
        self._change("let_in", workload_of(release), uid, event.time_us)
        self._run_unknown(release, event)

    def _delayed(self, waiting: WaitingWorkload, life: Life, at_us: int) -> None:
        """Record the start of a waiting workload at another time than on record."""
        if abs(at_us - life.from_us) > SAME_US:
            one = waiting.request
            workload = (one.quota, one.kind, one.namespace, one.name or one.owner or one.uid)
            kind = "waited" if at_us > life.from_us else "sooner"
            self._change(kind, workload, one.uid, at_us).waited_us = at_us - life.from_us


def _would_wait(tree: Tree, fact: AdmissionDecided) -> bool:
    """Whether a queue missing on record would have held it."""
    node = tree.nodes.get(fact.quota)
    is_held = node is not None and node.spec.queue.hold and fact.kind in _HOLDS
    is_resumed = fact.basis is not None and fact.basis.is_resumed
    return is_held and bool(fact.demand) and not is_resumed

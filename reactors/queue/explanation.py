"""The steps of a wait: the numbers that held a workload, the person that moved it, the cause of its release. Pure.

Room for a workload is not an event. It follows from the history, as its release does. So it is decided again after each
entry of its quota's journal, by the rules of releases. The entry that changes the answer is the cause.
A workload with room may still have to wait for its turn: earlier workloads come first.

Source: docs/architecture.md (a decision has its reason).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from bus.envelope import Event
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    QuotaDeclared,
    Release,
    TreeMetered,
)
from bus.events.queues import QueueOrdered
from bus.events.workloads import WorkloadObserved
from projections.quota_trees import Tree, TreeOverlay
from reactors.admission.coverage.objects import Object
from reactors.admission.deciding.decide import covers, decide
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.state.state import AdmissionState
from reactors.queue.plan import planned
from reactors.queue.shape import ordered
from reactors.queue.state import QueueState, request_of

SPENT = "budget-exhausted"


class WaitStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a workload at ``event``.

    ``what``: ``held`` (observed waiting, again for each wait), ``ordered`` (by a person), ``room`` (its whole request
    fits from now on), ``full`` (another workload took the room), ``released``, ``started`` (observed running).
    """

    uid: str
    event: Event
    what: str
    #: Of ``held``: its reason to wait; of ``room``: the cause of the room.
    reason: str = ""
    #: Its place in the queue from then on, and before an order; 0 = none.
    place: int = 0
    before: int = 0
    #: The answer to it alone, without the queue; of ``room`` the previous answer, too.
    answer: AdmissionDecided | None = None
    refused: AdmissionDecided | None = None
    order: QueueOrdered | None = None
    #: Of ``held``: when it was made.
    created_us: int = 0
    #: Of ``released``: the head that it passed, as namespace/name; "" if it passed none.
    passed: str = ""
    #: Workloads that returned amounts, as namespace/name.
    givers: tuple[str, ...] = ()
    #: The newest ``room`` of a release; None where there was room from the first on.
    cause: WaitStep | None = None


class WaitExplanation:
    """Follows the workloads ``uids``; view, journals and lines must have folded each event before it.

    ``names``: namespace/name of the current holders.
    """

    def __init__(
        self, view: AdmissionState, lines: QueueState, tree_of: Callable[[QuotaRef], Tree | None],
        uids: Collection[str], names: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.turns: list[WaitStep] = []
        self._view = view
        self._lines = lines
        self._tree_of = tree_of
        self._uids = frozenset(uids)
        #: The newest answer to each waiting workload, by uid, None while its quota does not exist; and the last cause of room.
        self._answers: dict[str, AdmissionDecided | None] = {}
        self._causes: dict[str, WaitStep] = {}
        self._running: set[str] = set()
        #: Names of holders: namespace/name.
        self._names = dict(names)
        self._place = 0

    def before(self, event: Event) -> None:
        """Note the state before the other readers fold an event."""
        if event.type == QueueOrdered.wire_type and event.key in self._uids:
            self._place = self.place(event.key)

    def apply(self, event: Event) -> None:
        """Fold one event."""
        if event.defect or event.cluster != self._view.cluster:
            return
        if event.type == WorkloadObserved.wire_type and event.key in self._uids:
            self._observed(event)
        elif event.type == QueueOrdered.wire_type and event.key in self._uids:
            order = QueueOrdered.read(event)
            place = self.place(event.key)
            self._tell(event, order.uid, "ordered", place=place, before=self._place, order=order)
        elif event.type == AdmissionDecided.wire_type:
            fact = AdmissionDecided.read(event)
            if fact.charge:
                self._names[fact.uid] = f"{fact.namespace}/{fact.name}"
            if fact.uid in self._uids and fact.reason == "released":
                self._released(event, fact)
        if event.type.startswith("admission.") and self._answers:
            self._ask(event)
        if event.type == AdmissionReleased.wire_type:
            for gone in AdmissionReleased.read(event).releases:
                if not gone.charge:
                    self._names.pop(gone.uid, None)

    def _observed(self, event: Event) -> None:
        found = self._view.objects.get(event.key)
        if found is None:
            return
        if found.ask.held and found.uid not in self._answers:
            self._running.discard(found.uid)
            self._held(event, found)
        elif not found.ask.held and found.ask.demand and found.uid not in self._running:
            self._running.add(found.uid)
            if any(turn.uid == found.uid for turn in self.turns):
                self._tell(event, found.uid, "started")
            self._answers.pop(found.uid, None)

    def _held(self, event: Event, found: Object) -> None:
        uid, answer = found.uid, self._answer(found, event.time_us)
        self._answers[uid] = answer
        self._causes.pop(uid, None)
        if answer is not None:
            reason = "returned" if self._lines.is_returning(uid) else answer.reason
            self._tell(
                event, uid, "held", reason=reason, place=self.place(uid), answer=answer,
                created_us=found.created_us,
            )  # fmt: skip

    def _released(self, event: Event, fact: AdmissionDecided) -> None:
        cause = self._causes.get(fact.uid)
        refused = self._answers.pop(fact.uid, None)
        if refused is not None and refused.reason == SPENT and cause is None:
            # A period begins by time alone, without an entry.
            cause = WaitStep(uid=fact.uid, event=event, what="room", reason="period-began")
        head = self._view.objects.get(fact.passed)
        passed = f"{head.namespace}/{head.name}" if head is not None else fact.passed
        self._tell(event, fact.uid, "released", cause=cause, passed=passed)

    def _ask(self, event: Event) -> None:
        """Check each waiting workload again after one more entry of its journal."""
        for uid, before in list(self._answers.items()):
            found = self._view.objects.get(uid)
            where = self._place_of(found)
            tree = self._tree_of(where) if where is not None else None
            if found is None or tree is None or tree.name != event.key:
                continue
            answer = self._answer(found, event.time_us)
            if answer is None:
                continue
            self._answers[uid] = answer
            if before is None:
                self._held(event, found)
            elif answer.verdict == "admitted" and before.verdict != "admitted":
                reason, givers = self._reason(event, before, answer)
                self._causes[uid] = self._tell(
                    event, uid, "room", reason=reason, answer=answer, refused=before, givers=givers
                )
            elif answer.verdict != "admitted" and before.verdict == "admitted":
                self._causes.pop(uid, None)
                self._tell(event, uid, "full", reason=answer.reason, answer=answer)

    def _reason(
        self, event: Event, before: AdmissionDecided, answer: AdmissionDecided
    ) -> tuple[str, tuple[str, ...]]:
        if event.type == AdmissionReleased.wire_type:
            releases = AdmissionReleased.read(event).releases
            return "usage-fell", tuple(self._named(one) for one in releases)
        if event.type == QuotaDeclared.wire_type:
            return "limit-rose", ()
        if event.type == TreeMetered.wire_type and before.reason == SPENT:
            return "budget-renewed", ()
        # In an elastic tree: more nodes, or smaller requests of others.
        return "share-rose", ()

    def _named(self, release: Release) -> str:
        return f"{self._names.get(release.uid, release.uid)} ({release.reason})"

    def _answer(self, found: Object, now_us: int) -> AdmissionDecided | None:
        """The answer to it alone, without the queue; None if it is granted, or its quota does not exist."""
        where = self._place_of(found)
        tree = self._tree_of(where) if where is not None else None
        if where is None or tree is None:
            return None
        request = request_of(found, where)
        if covers(TreeOverlay(tree), request) and not self._lines.is_returning(found.uid):
            return None
        return decide(TreeOverlay(tree), request, now_us, where.refusal)

    def _place_of(self, found: Object | None) -> QuotaRef | None:
        return self._view.place(found.labels, found.namespace) if found is not None else None

    def place(self, uid: str) -> int:
        """The place of one in its queue; 0 where it has none."""
        for queues in planned(self._lines, self._tree_of).queues.values():
            for line in queues.values():
                for place, one in enumerate(ordered(line.waiting), 1):
                    if one.uid == uid:
                        return place
        return 0

    def _tell(self, event: Event, uid: str, what: str, **more: Any) -> WaitStep:
        turn = WaitStep(uid=uid, event=event, what=what, **more)
        self.turns.append(turn)
        return turn

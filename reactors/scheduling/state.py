"""The scheduler's state, folded from the history: waiting pods, and placed pods not observed there yet. Pure but for its state.

The contract for binders:

- :attr:`SchedulingState.outstanding` are the pods to bind, the oldest pass first. Each has the uid, the node, the cards and the
  ``decision`` (the id of its pass's event) for the Binding. A shadow is never among them.
- Before each bind, :meth:`SchedulingState.overtaken` returns a token as the reason against it. Then the plugins of the pod's
  profile do their PreBind, one of them binds, and all are notified (:mod:`reactors.scheduling.framework.bind_plugins`).
- A successful bind has no record of its own: the pod is observed on its node, and is no longer outstanding. A failed one is in
  :class:`bus.events.decisions.BindSettled` with the sequence of the pass; the pod then waits again, after its back-off.
- A starting process finds in ``outstanding`` all binds possibly done or not: the API server refuses a second bind (409), and the
  pod itself shows its node. After :attr:`Assumed.deadline_us`, a time of the history, the pod is read too: a bind without an
  answer may have succeeded, so time alone releases no room.
- The policy may have changed since: ``policy_digest`` shows it, and decisions of another policy are settled as ``stale``.

Until the policy's mode is ``shadow`` or ``on``, the state is empty and no computing module is imported.

Source: docs/scheduling.md; docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import msgspec
from pydantic import ValidationError

from bus.envelope import Event
from bus.events.clock import ClockTicked
from bus.events.decisions import BindSettled, EffectSettled, Evict, SchedulingPassed
from bus.events.policies import Mode, PauseChanged, PolicyChanged
from bus.events.vocabulary import Fact
from projections.cluster import ClusterState, Pod
from projections.cluster.reservations import SavedReservations
from projections.engine.parts import Part
from projections.quota_trees.forest import QuotaTrees
from reactors.admission.state.state import AdmissionState, SavedAdmission
from reactors.scheduling import NAME, quotas_of, scheduler_of
from reactors.scheduling.counts import SavedCounts, SchedulingCounts
from reactors.scheduling.gangs.shape import SavedGangs
from reactors.scheduling.settings import SchedulingPolicy
from reactors.scheduling.shape import (
    Assumed,
    Dealt,
    Evicting,
    Mark,
    Nominated,
    Rested,
    SavedArrivals,
    WaitingPod,
)

if TYPE_CHECKING:
    from reactors.scheduling.cycle.passes import Scheduler
    from reactors.scheduling.queueing.quota_state import QuotaState


class SavedScheduling(msgspec.Struct):
    """The part of a snapshot for the scheduler."""

    sequence: int
    at_us: int
    mode: Mode
    policy: bytes
    policy_digest: str
    newest: int
    waiting: dict[str, list[WaitingPod]]
    numbers: dict[str, int]
    assumed: list[Assumed]
    dealt: dict[str, Dealt]
    touched: dict[str, int]
    counts: SavedCounts
    nominated: list[Nominated]
    evicting: dict[str, Evicting]
    rested: dict[str, Rested]
    #: None without a learning plugin.
    arrivals: SavedArrivals | None
    #: None without a plugin for quotas.
    quotas: SavedAdmission | None
    #: None without scheduling.
    gangs: SavedGangs | None
    #: None without a plugin for them.
    reservations: SavedReservations | None


class SchedulingState(Part):
    """The state of scheduling, a :class:`reactors.engine.contract.State`."""

    Saved = SavedScheduling
    derived = frozenset({"_cluster", "_trees", "_load", "_load_quotas", "scheduler"})

    reads: ClassVar[tuple[type[Fact], ...]] = (
        *ClusterState.reads, ClockTicked, PolicyChanged, PauseChanged, SchedulingPassed, BindSettled,
        Evict, EffectSettled, *QuotaTrees.reads, *AdmissionState.reads,
    )  # fmt: skip

    def __init__(self, state: ClusterState, quotas: QuotaTrees) -> None:
        self._cluster, self._trees = state, quotas
        self._load, self._load_quotas = scheduler_of, quotas_of
        #: Admission's state, if a plugin reads it.
        self.quotas: QuotaState | None = None
        #: None without scheduling.
        self.scheduler: Scheduler | None = None
        #: The newest event folded here, and its time.
        self.sequence = 0
        self.at_us = 0
        self.mode: Mode = "off"
        #: The policy as JSON, and its digest.
        self.policy = b""
        self.policy_digest = ""
        #: The newest pass.
        self.newest = 0
        self.counts = SchedulingCounts()
        #: Cards allocated to pods by decisions before scheduling was switched off.
        self.dealt: dict[str, Dealt] = {}

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event. A pass of an outdated policy changes nothing."""
        if isinstance(fact, Evict):
            # The deciding process knows it before it is read, so it moves nothing and no pass depends on it.
            if fact.reactor == NAME and self.scheduler is not None:
                self.scheduler.nominations.decided(fact)
            return
        if self.quotas is None and isinstance(fact, QuotaTrees.entries):
            return
        self.sequence, self.at_us = event.sequence, event.time_us
        moved = self.quotas.apply(fact, event) if self.quotas is not None else None
        if isinstance(fact, PolicyChanged):
            if fact.reactor == NAME:
                self._go_by(fact, event.cluster)
            return
        if isinstance(fact, SchedulingPassed):
            self.newest = event.sequence
        scheduler = self.scheduler
        if scheduler is None:
            return
        scheduler.columns.at_us = event.time_us
        if isinstance(fact, SchedulingPassed):
            self._passed(scheduler, fact, event)
        elif isinstance(fact, BindSettled):
            self.counts.settled(fact)
            for one in fact.failed:
                reason = f"{one.result}: {one.message}" if one.message else one.result
                scheduler.assumed_pods.take_back(one.uid, one.passed, reason, event.time_us)
        elif isinstance(fact, EffectSettled):
            if fact.reactor == NAME:
                scheduler.settled(fact, event.time_us)
        elif isinstance(fact, ClockTicked):
            scheduler.elapse(event.time_us)
            if self.mode == "off" and not scheduler.assumed:
                self.scheduler = self.quotas = None
        else:
            changes = self._cluster.changes(event)
            if changes:
                self.counts.observed(changes, scheduler.assumed, event.time_us)
                scheduler.follow(changes, event.sequence, event.time_us)
        if self.quotas is not None and moved is not None:
            scheduler.quotas_moved(self.quotas, moved, event.sequence, event.time_us)

    def _passed(self, scheduler: Scheduler, fact: SchedulingPassed, event: Event) -> None:
        # The digest covers the mode.
        if fact.policy != self.policy_digest or fact.profile not in scheduler.frameworks:
            return
        at_us = event.time_us
        self.counts.passed(fact, at_us)
        mark = Mark(event.sequence, event.id, fact.after, at_us, fact.is_shadow)
        for one in fact.pods:
            if one.node >= 0:
                cpus = fact.cpus.get(one.uid)
                scheduler.place(fact.profile, one.uid, fact.nodes[one.node], one.cards, mark, cpus)
            else:
                refusal = fact.refusals[one.refused]
                scheduler.refuse(fact.profile, one.uid, refusal, fact.count, at_us)
        for number in fact.again:
            scheduler.refuse_again(fact.profile, number, at_us)
        for asked in fact.nominated:
            scheduler.nominate(fact.profile, asked, fact.nodes[asked.node], mark)
        scheduler.passed(fact.after)

    def _go_by(self, fact: PolicyChanged, cluster: str) -> None:
        """Begin again with another policy. Binds possibly under way keep their room; shadows end."""
        kept = [] if self.scheduler is None else list(self.scheduler.assumed_pods.outstanding())
        try:
            policy = SchedulingPolicy.model_validate(fact.policy)
        except ValidationError:
            # The replica has the policy's mode. Without a policy there are no decisions.
            self.mode, policy = "off", SchedulingPolicy()
        else:
            self.mode = fact.mode
        dealt = self.dealt if self.scheduler is None else self.scheduler.columns.placements.dealt
        self.dealt = {uid: one for uid, one in dealt.items() if uid in self._cluster.pods}
        gangs = None if self.scheduler is None else self.scheduler.gangs.saved()
        reservations = None if self.scheduler is None else self.scheduler.handed_on(kept)
        self.policy, self.policy_digest = (
            msgspec.json.encode(fact.policy, order="sorted"),
            fact.digest,
        )
        self.scheduler = None
        if self.mode != "off" or kept:
            own = self.scheduler = self._made(
                policy, self.dealt, partial(self._begun_quotas, cluster)
            )
            self.quotas, own.columns.at_us = own.context.quotas, self.at_us
            own.begin(self.at_us, gangs, reservations)
            own.adopt(kept)
        else:
            self.quotas = None

    def _begun_quotas(self, cluster: str) -> QuotaState:
        if self.quotas is None:
            self.quotas = self._load_quotas(self._cluster, self._trees)
            self.quotas.begin(cluster)
        return self.quotas

    def _made(
        self,
        policy: SchedulingPolicy,
        dealt: Mapping[str, Dealt],
        quotas: Callable[[], QuotaState | None],
    ) -> Scheduler:
        return self._load(policy, self._cluster, self.mode == "shadow", dealt, quotas)

    def saved(self) -> SavedScheduling:
        """The part of a snapshot for scheduling."""
        own = self.scheduler
        return SavedScheduling(
            self.sequence, self.at_us, self.mode, self.policy, self.policy_digest, self.newest,
            {name: queue.saved() for name, queue in own.queues.items()} if own else {},
            {name: queue.number for name, queue in own.queues.items()} if own else {},
            list(own.assumed.values()) if own else [],
            own.columns.placements.dealt if own else self.dealt,
            own.touched if own else {}, self.counts.saved(),
            list(own.nominations) if own else [],
            own.nominations.evicting if own else {}, own.nominations.rested if own else {},
            own.columns.facts.arrivals.saved() if own and own.columns.facts.arrivals else None,
            self.quotas.seen.saved() if self.quotas else None,
            own.gangs.saved() if own else None,
            own.saved_reservations() if own else None,
        )  # fmt: skip

    def restore(self, saved: SavedScheduling) -> None:
        """Restore a saved state into a new one, after the state of its cluster."""
        super().restore(saved)
        self.quotas = None
        if saved.quotas is not None:
            self.quotas = self._load_quotas(self._cluster, self._trees)
            self.quotas.restore(saved.quotas)
        if saved.mode != "off" or saved.assumed:
            policy = SchedulingPolicy.model_validate_json(saved.policy)
            own = self.scheduler = self._made(policy, saved.dealt, lambda: self.quotas)
            own.columns.at_us = self.at_us
            own.gangs.begin(saved.gangs)
            own.restore(saved.waiting, saved.numbers, saved.assumed, saved.reservations)
            own.touched.update(saved.touched)
            own.nominations.restore(saved.nominated, saved.evicting, saved.rested)
            if saved.arrivals is not None:
                own.columns.facts.recall(saved.arrivals)

    # questions

    def pod(self, uid: str) -> Pod | None:
        """A pod as last observed; None for a deleted one."""
        return self._cluster.pods.get(uid)

    @property
    def outstanding(self) -> Iterable[Assumed]:
        """The pods to bind, or with an unconfirmed bind, the oldest first."""
        return self.scheduler.assumed_pods.outstanding() if self.scheduler is not None else ()

    def overtaken(self, found: Assumed) -> str:
        """The reason why a pod must not be bound as decided, as a token; "" = it may."""
        if self.scheduler is None:
            return "settled"
        return self.scheduler.assumed_pods.overtaken(found, self.at_us)

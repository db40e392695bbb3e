"""Culling's state beside that of the cluster: the activity of notebooks, warnings and stops.

A pod is a notebook after its first probe as one (``notebook.sampled``). A new pod is a new run and inherits nothing.

A warning counts from its first moment on the object, as its outcome reports it. So a stop never follows an invisible
warning. After a jump of the clock all warnings are void: the time of their display is unknown.

Source: docs/architecture.md; :mod:`reactors.culling.fusion` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec
from pydantic import ValidationError

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.clock import ClockTicked
from bus.events.decisions import (
    Cull,
    Decision,
    EffectSettled,
    NoticeSettled,
    Restore,
    RestoreAsked,
    Target,
    Warn,
    Withdraw,
)
from bus.events.namespaces import NamespaceObserved
from bus.events.notebooks import NotebookSampled
from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed, PodState
from bus.events.policies import PolicyChanged
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.notebooks.go_json import SOURCE
from projections import activity
from projections.activity import Activity
from projections.cluster import Change, ClusterState, Pod, Workload
from projections.engine.parts import Part, SavedDecision
from projections.quota_trees.forest import QuotaTrees
from reactors.culling.kubeflow.passes import CullerPasses, SavedPasses
from reactors.culling.policy import KubeflowRules
from reactors.engine.interlocks import JUMP_US

NAME = "culling"
NOTEBOOK = "Notebook"
#: Pause on a notebook after a refusal.
REST_US = 600 * SECOND_US
#: Stops that can be undone.
UNDONE_KEPT = 10_000


class ActiveWarning(msgspec.Struct, frozen=True):
    """A warning on its object since ``at_us``."""

    at_us: int
    decision: Decision
    #: A report to the operator's address was tried, with or without success.
    is_told: bool = False


class SavedWarning(msgspec.Struct):
    """A warning in a snapshot."""

    at_us: int
    decision: SavedDecision
    is_told: bool


class SavedCulling(msgspec.Struct):
    """The state of culling in a snapshot."""

    activity: dict[str, Activity]
    images: dict[str, str]
    warnings: dict[str, SavedWarning]
    stopped: dict[str, SavedDecision]
    awaited: dict[str, SavedDecision]
    rests_until_us: dict[str, int]
    culls: dict[str, SavedDecision]
    restores: dict[str, SavedDecision]
    counts: dict[tuple[str, str], tuple[int, int]]
    ticked_us: int
    books: SavedPasses


class CullingState(Part):
    """Kept by :class:`reactors.engine.contract.State`. All maps are by pod uid unless they say otherwise."""

    Saved = SavedCulling
    derived = frozenset({"state", "warned"})
    reads: ClassVar[tuple[type[Fact], ...]] = (
        NotebookSampled, PodState, WorkloadObserved, WorkloadVanished, PodsListed, ObjectsListed,
        NamespaceObserved, ClockTicked, PolicyChanged, Warn, Withdraw, Cull, Restore, EffectSettled,
        NoticeSettled, RestoreAsked,
    )  # fmt: skip

    def __init__(self, state: ClusterState, _: QuotaTrees) -> None:
        self.state = state
        self.activity: dict[str, Activity] = {}
        self.images: dict[str, str] = {}
        self.warned: dict[str, ActiveWarning] = {}
        self.stopped: dict[str, Decision] = {}
        #: Decisions about a pod without an outcome yet; they outlive the pod.
        self.awaited: dict[str, Decision] = {}
        #: The end of the pause after a refusal.
        self.rests_until_us: dict[str, int] = {}
        #: Finished culls, by their id, and those to undo.
        self.culls: dict[str, Decision] = {}
        self.restores: dict[str, Decision] = {}
        #: By (namespace, name): the number of stops, and the time of the last.
        self.counts: dict[tuple[str, str], tuple[int, int]] = {}
        self.ticked_us = 0
        #: The passes of Kubeflow's culler.
        self.books = CullerPasses()

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event."""
        for change in self.state.changes(event):
            self._changed(change)
        if isinstance(fact, NotebookSampled):
            self._sampled(fact, event)
        elif isinstance(fact, ClockTicked):
            if self.ticked_us and abs(event.time_us - self.ticked_us) > JUMP_US:
                self.warned.clear()
            self.ticked_us = event.time_us
        else:
            self._own(fact, event)

    @property
    def warnings(self) -> dict[str, SavedWarning]:
        """The warnings in a snapshot."""
        return {
            uid: SavedWarning(one.at_us, SavedDecision.of(one.decision), one.is_told)
            for uid, one in self.warned.items()
        }

    def restore(self, saved: SavedCulling) -> None:
        """Load a snapshot into a new state."""
        super().restore(saved)
        self.warned = {
            uid: ActiveWarning(one.at_us, one.decision.decision, one.is_told)
            for uid, one in saved.warnings.items()
        }

    # observations

    def _sampled(self, fact: NotebookSampled, event: Event) -> None:
        if self.pod(fact.uid) is None:
            # The pod ended during its probe; an entry would never be removed.
            return
        self.activity[fact.uid] = activity.fold(self.activity.get(fact.uid), fact, event)
        self.images[fact.uid] = fact.image
        self.checked(fact, event.time_us)

    def checked(self, fact: NotebookSampled, at_us: int) -> None:
        """A look is a pass of Kubeflow's culler, where its rules hold."""
        pod = self.pod(fact.uid)
        for evidence in fact.evidence:
            if pod is not None and evidence.source == SOURCE:
                self.books.looked(pod.namespace, pod.name, evidence, at_us)

    def _changed(self, change: Change) -> None:
        before, after = change.before, change.after
        if isinstance(before, Pod):
            if not before.is_ended and (not isinstance(after, Pod) or after.is_ended):
                self._forget(before)
        elif change.kind == NOTEBOOK:
            # The passes are by name: of two Notebooks of one name the older is about to go.
            if isinstance(after, Workload) and self._has_name(after):
                self.books.observed(after.uid, after.namespace, after.name, after.annotations)
            elif isinstance(before, Workload) and after is None:
                self.books.lost(before.uid, before.namespace, before.name)

    def _has_name(self, one: Workload) -> bool:
        return self.state.named(one.kind, one.namespace, one.name) == one.uid

    def _forget(self, pod: Pod) -> None:
        """A pod has ended, or is gone."""
        self.books.pod_gone(pod.namespace, pod.name)
        for known in (self.activity, self.images, self.warned, self.stopped):
            known.pop(pod.uid, None)
        self.rests_until_us.pop(pod.uid, None)

    # decisions and their outcomes

    def _own(self, fact: Fact, event: Event) -> None:
        if isinstance(fact, PolicyChanged) and fact.reactor == NAME:
            # Users saw nothing of a shadow's effects.
            self.books.begin(_rules(fact))
            self.warned = {u: one for u, one in self.warned.items() if not one.decision.is_shadow}
            self.stopped = {u: one for u, one in self.stopped.items() if not one.is_shadow}
        elif isinstance(fact, Decision) and fact.reactor == NAME:
            self._decided(fact)
        elif isinstance(fact, EffectSettled) and fact.reactor == NAME:
            self._settled(fact, event.time_us)
        elif isinstance(fact, NoticeSettled) and fact.reactor == NAME:
            for uid, one in self.warned.items():
                if one.decision.id == fact.decision:
                    self.warned[uid] = msgspec.structs.replace(one, is_told=True)
        elif isinstance(fact, RestoreAsked) and fact.decision in self.culls:
            self.restores[fact.decision] = self.culls[fact.decision]

    def _decided(self, decision: Decision) -> None:
        uid = decision.key
        if isinstance(decision, Restore):
            self.restores.pop(uid, None)
            return
        if isinstance(decision, Withdraw):
            self.warned.pop(uid, None)
        if not decision.is_shadow:
            self.awaited[uid] = decision
        else:
            self._stands(decision, decision.at_us)

    def _settled(self, fact: EffectSettled, at_us: int) -> None:
        decision = next((d for d in self.awaited.values() if d.id == fact.decision), None)
        if decision is None:
            return
        del self.awaited[decision.key]
        if fact.result == "done":
            self._stands(decision, at_us)
        elif fact.result == "refused":
            self.rests_until_us[decision.key] = at_us + REST_US

    def _stands(self, decision: Decision, at_us: int) -> None:
        is_here = self.pod(decision.key) is not None
        if isinstance(decision, Warn) and is_here:
            self.warned[decision.key] = ActiveWarning(at_us, decision)
        elif isinstance(decision, Cull):
            self.warned.pop(decision.key, None)
            if is_here:
                self.stopped[decision.key] = decision
            if not decision.is_shadow:
                place = (decision.target.namespace, decision.target.name)
                self.counts[place] = (self.counts.get(place, (0, 0))[0] + 1, at_us)
                self.culls[decision.id] = decision
                if len(self.culls) > UNDONE_KEPT:
                    del self.culls[next(iter(self.culls))]

    # questions

    @property
    def notebooks(self) -> list[str]:
        """Every live pod with a notebook probe, in the order of the uids."""
        return sorted(uid for uid in self.activity if self.pod(uid) is not None)

    def pod(self, uid: str) -> Pod | None:
        """A pod that has not ended; None for any other."""
        found = self.state.pods.get(uid)
        return found if found is not None and not found.is_ended else None

    def pods(self) -> Iterator[Pod]:
        """Every pod that has not ended."""
        return (pod for pod in self.state.pods.values() if not pod.is_ended)

    def team(self, pod: Pod) -> str:
        """The team of a pod, by its own label or its namespace's; "" without one."""
        namespace = self.state.namespaces.get(pod.namespace)
        return pod.team or (namespace.team if namespace is not None else "")

    def target(self, pod: Pod) -> Target | None:
        """The object to stop for this pod: the end of its chain. None if that was not observed, is of a kind that cannot be
        stopped, or controls other pods, too.
        """
        chain = self.state.chain(pod.owner)
        if chain is None:
            return None
        if not chain:
            return Target("Pod", pod.namespace, pod.name, pod.uid, pod.node)
        top = chain[-1]
        if top.kind not in STOPPED_KINDS or self.pods_below(top.uid) != {pod.uid}:
            return None
        return Target(top.kind, top.namespace, top.name, top.uid, pod.node)

    def pods_below(self, uid: str) -> set[str]:
        """The live pods controlled by an object, directly or through others. Users may create cycles of controllers."""
        found, seen, following = set[str](), {uid}, [uid]
        while following:
            below = self.state.index.owned[following.pop()] - seen
            seen |= below
            found.update(one for one in below if self.pod(one) is not None)
            following += below - self.state.pods.keys()
        return found

    def annotations(self, pod: Pod) -> dict[str, str]:
        """The annotations of the pod and of all its controllers; the upper ones win."""
        merged = dict(pod.annotations)
        for one in self.state.chain(pod.owner) or ():
            merged |= one.annotations
        return merged


#: Kinds with their own means of stop and start; a pod without a controller is evicted.
STOPPED_KINDS = frozenset({"Notebook", "StatefulSet", "Deployment"})


def _rules(fact: PolicyChanged) -> KubeflowRules | None:
    rules = fact.policy.get("kubeflow")
    try:
        return KubeflowRules.model_validate(rules) if rules is not None else None
    except ValidationError:
        # The whole policy is refused where it is folded (:mod:`reactors.engine.policies`).
        return None

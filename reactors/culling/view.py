"""What culling knows of a cluster: its pods and what controls them, the activity of notebooks, warnings and stops.

A pod is a notebook once it was looked at as one (``notebook.sampled``); a new pod is a new run and inherits nothing.

A warning counts from the moment at which it stood on the object, as its outcome says, so a stop never follows one that
nobody could see. After a jump of the clock all warnings are void: how long they stood is unknown.

Source: ``house.md`` section 5; :mod:`reactors.culling.fusion` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from pydantic import ValidationError

from bus.clock import SECOND_US, parse_stamp
from bus.envelope import Event
from bus.errors import TimestampError
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
from bus.events.pods import Owner, PodsListed, PodState, PodVanished
from bus.events.policies import PolicyChanged
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.sources.kernels import kubeflow
from projections import activity, histories
from projections.activity import Activity
from reactors.culling.kubeflow.books import Books
from reactors.culling.policy import KubeflowRules
from reactors.engine.interlocks import JUMP_US

NAME = "culling"
NOTEBOOK = "Notebook"
#: Longest chain of controllers that is followed (``reliability.md`` A26).
DEPTH = 8
#: After a refusal, so long nothing is tried on that notebook.
REST_US = 600 * SECOND_US
#: Stops that can be undone.
UNDONE_KEPT = 10_000


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A live pod as its newest observation says."""

    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    running_since_us: int
    is_running: bool
    node: str
    team: str
    owner: Owner | None
    labels: dict[str, str]
    annotations: dict[str, str]


class Object(msgspec.Struct, frozen=True, gc=False):
    """A workload as its newest observation says."""

    uid: str
    kind: str
    namespace: str
    name: str
    version: str
    seen_us: int
    owner: Owner | None
    annotations: dict[str, str]


class Standing(msgspec.Struct, frozen=True):
    """A warning that stands on its object since ``at_us``."""

    at_us: int
    decision: Decision
    #: It was tried to tell somebody outside, with or without success.
    is_told: bool = False


class CullingView:
    """Kept by :class:`reactors.engine.contract.State`. All maps are by pod uid unless they say otherwise."""

    reads: ClassVar[tuple[type[Fact], ...]] = (
        NotebookSampled, PodState, WorkloadObserved, WorkloadVanished, PodsListed, ObjectsListed,
        NamespaceObserved, ClockTicked, PolicyChanged, Warn, Withdraw, Cull, Restore, EffectSettled,
        NoticeSettled, RestoreAsked,
    )  # fmt: skip

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        #: By the uid of the object.
        self.objects: dict[str, Object] = {}
        self.activity: dict[str, Activity] = {}
        self.images: dict[str, str] = {}
        #: By name.
        self.teams: dict[str, str] = {}
        self.warned: dict[str, Standing] = {}
        self.stopped: dict[str, Decision] = {}
        #: What was decided about a pod and has no outcome yet; it outlives the pod.
        self.awaited: dict[str, Decision] = {}
        #: Until when nothing is tried, because it was refused.
        self.rests_until_us: dict[str, int] = {}
        #: Culls that were done, by their id, and those that shall be undone.
        self.culls: dict[str, Decision] = {}
        self.restores: dict[str, Decision] = {}
        #: (namespace, name) of what was stopped: how often, and when last.
        self.counts: dict[tuple[str, str], tuple[int, int]] = {}
        #: What each controller controls, pods and objects: uids by its uid.
        self.controlled: dict[str, set[str]] = {}
        self.ticked_us = 0
        #: What Kubeflow's culler knows.
        self.books = Books()

    def take(self, fact: Fact, event: Event) -> None:
        """Fold one event."""
        if isinstance(fact, NotebookSampled):
            self._sampled(fact, event)
        elif isinstance(fact, PodState):
            self._pod(fact, event.time_us)
        elif isinstance(fact, WorkloadObserved | WorkloadVanished):
            self._object(fact, event.time_us)
        elif isinstance(fact, PodsListed):
            for uid in _absent(fact, self.pods, event.time_us):
                self._forget(uid)
        elif isinstance(fact, ObjectsListed):
            mine = {uid: one for uid, one in self.objects.items() if one.kind == fact.kind}
            for uid in _absent(fact, mine, event.time_us):
                self._lose_notebook(mine[uid])
                self._lose(uid)
        elif isinstance(fact, NamespaceObserved):
            self.teams[fact.name] = fact.team or ""
        elif isinstance(fact, ClockTicked):
            if self.ticked_us and abs(event.time_us - self.ticked_us) > JUMP_US:
                self.warned.clear()
            self.ticked_us = event.time_us
        else:
            self._own(fact, event)

    # what was seen

    def _sampled(self, fact: NotebookSampled, event: Event) -> None:
        if fact.uid not in self.pods:
            # It ended while it was looked at; nothing would ever clear this away.
            return
        self.activity[fact.uid] = activity.fold(self.activity.get(fact.uid), fact, event)
        self.images[fact.uid] = fact.image
        self.checked(fact, event.time_us)

    def checked(self, fact: NotebookSampled, at_us: int) -> None:
        """A look is a pass of Kubeflow's culler, where its rules hold."""
        pod = self.pods.get(fact.uid)
        for evidence in fact.evidence:
            if pod is not None and evidence.source == kubeflow.SOURCE:
                self.books.looked(pod.namespace, pod.name, evidence, at_us)

    def _pod(self, fact: PodState, time_us: int) -> None:
        known = self.pods.get(fact.uid)
        version = fact.resource_version
        if known is not None and not histories.precedes(
            known.version, known.seen_us, version, time_us
        ):
            return
        if isinstance(fact, PodVanished) or fact.phase in ("Succeeded", "Failed"):
            self._forget(fact.uid)
            return
        if known is not None:
            self._controls_no_more(known.owner, fact.uid)
        self.pods[fact.uid] = Pod(
            fact.uid, fact.namespace, fact.name, version, time_us,
            _us(fact.scheduled or fact.created, time_us),
            fact.phase == "Running" and not fact.deletion,
            fact.node or "", fact.team or "", fact.owner, fact.labels, fact.annotations,
        )  # fmt: skip
        self._controls(fact.owner, fact.uid)

    def _forget(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._controls_no_more(pod.owner, uid)
            self.books.pod_gone(pod.namespace, pod.name)
        for known in (self.activity, self.images, self.warned, self.stopped):
            known.pop(uid, None)
        self.rests_until_us.pop(uid, None)

    def _controls(self, owner: Owner | None, uid: str) -> None:
        if owner is not None:
            self.controlled.setdefault(owner.uid, set()).add(uid)

    def _controls_no_more(self, owner: Owner | None, uid: str) -> None:
        if owner is not None and owner.uid in self.controlled:
            self.controlled[owner.uid].discard(uid)
            if not self.controlled[owner.uid]:
                del self.controlled[owner.uid]

    def _object(self, fact: WorkloadObserved | WorkloadVanished, time_us: int) -> None:
        known = self.objects.get(fact.uid)
        version = fact.resource_version
        if known is not None and not histories.precedes(
            known.version, known.seen_us, version, time_us
        ):
            return
        self._lose(fact.uid)
        if isinstance(fact, WorkloadVanished):
            if known is not None:
                self._lose_notebook(known)
            return
        if fact.kind == NOTEBOOK:
            self.books.observed(fact.uid, fact.namespace, fact.name, fact.annotations)
        self._controls(fact.owner, fact.uid)
        self.objects[fact.uid] = Object(
            fact.uid, fact.kind, fact.namespace, fact.name, version, time_us, fact.owner,
            fact.annotations,
        )  # fmt: skip

    def _lose(self, uid: str) -> None:
        known = self.objects.pop(uid, None)
        if known is not None:
            self._controls_no_more(known.owner, uid)

    def _lose_notebook(self, known: Object) -> None:
        if known.kind == NOTEBOOK:
            self.books.lost(known.uid, known.namespace, known.name)

    # what was decided, and became of it

    def _own(self, fact: Fact, event: Event) -> None:
        if isinstance(fact, PolicyChanged) and fact.reactor == NAME:
            # What a shadow did, nobody has seen.
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
        is_here = decision.key in self.pods
        if isinstance(decision, Warn) and is_here:
            self.warned[decision.key] = Standing(at_us, decision)
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
        """Every live pod that was looked at as a notebook, in the order of the uids."""
        return sorted(uid for uid in self.activity if uid in self.pods)

    def chain(self, pod: Pod) -> list[Object] | None:
        """What controls the pod, the nearest first; None where the chain was not seen to its end."""
        found: list[Object] = []
        owner = pod.owner
        while owner is not None:
            above = self.objects.get(owner.uid)
            if above is None or len(found) == DEPTH:
                return None
            found.append(above)
            owner = above.owner
        return found

    def target(self, pod: Pod) -> Target | None:
        """What to stop for this pod: the end of its chain. None where that was not seen, is of a kind that is not
        stopped, or controls other pods, too: they would go with it.
        """
        chain = self.chain(pod)
        if chain is None:
            return None
        if not chain:
            return Target("Pod", pod.namespace, pod.name, pod.uid, pod.node)
        top = chain[-1]
        if top.kind not in STOPPED_KINDS or self.pods_below(top.uid) != {pod.uid}:
            return None
        return Target(top.kind, top.namespace, top.name, top.uid, pod.node)

    def pods_below(self, uid: str) -> set[str]:
        """The live pods that an object controls, through others. Objects may control each other: users write it."""
        found, seen, following = set[str](), {uid}, [uid]
        while following:
            below = self.controlled.get(following.pop(), set()) - seen
            seen |= below
            found |= below & self.pods.keys()
            following += below - self.pods.keys()
        return found

    def annotations(self, pod: Pod) -> dict[str, str]:
        """Those of the pod and of all that controls it; what stands further up counts."""
        merged = dict(pod.annotations)
        for one in self.chain(pod) or ():
            merged |= one.annotations
        return merged


#: Kinds that are stopped and started again by their own means; a pod without a controller is evicted.
STOPPED_KINDS = frozenset({"Notebook", "StatefulSet", "Deployment"})


def _absent(
    fact: PodsListed | ObjectsListed, known: Mapping[str, Pod | Object], asked_us: int
) -> list[str]:
    present = set(fact.uids)
    return [
        uid
        for uid, one in known.items()
        if uid not in present
        and one.seen_us < asked_us
        and fact.first <= uid
        and (not fact.until or uid < fact.until)
    ]


def _rules(fact: PolicyChanged) -> KubeflowRules | None:
    said = fact.policy.get("kubeflow")
    try:
        return KubeflowRules.model_validate(said) if said is not None else None
    except ValidationError:
        # The whole policy is refused where it is folded (:mod:`reactors.engine.policies`).
        return None


def _us(stamp: str | None, otherwise_us: int) -> int:
    try:
        return parse_stamp(stamp) if stamp else otherwise_us
    except TimestampError:
        return otherwise_us

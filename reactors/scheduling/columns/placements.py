"""Nodes, cards and CPUs of pods, by the history or by decisions ahead of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.events.constraints import DeviceTerms, HeldCpus
from projections.cluster import Change, ClusterState, Pod
from reactors.scheduling.columns.requests import Requests
from reactors.scheduling.shape import Dealt, holds


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A pod on a node, and its cards and CPUs by a decision; cards by its annotation (``is_said``) without one.

    ``terms``: its device terms at the time of the decision.
    """

    pod: Pod
    node: str
    cards: tuple[int, ...] = ()
    cpus: HeldCpus | None = None
    is_said: bool = False
    terms: DeviceTerms | None = None


class Placements:
    """The node of each pod of a cluster. ``dealt``: the cards allocated by decisions to pods already bound, by uid."""

    def __init__(
        self, cluster: ClusterState, requests: Requests, dealt: Mapping[str, Dealt] | None = None
    ) -> None:
        self._cluster, self._requests = cluster, requests
        #: Cards allocated to pods by decisions, by uid, until the pod is gone or is on another node.
        self.dealt: dict[str, Dealt] = dict(dealt or {})
        #: Pods placed ahead of the history, by uid.
        self.ahead: dict[str, Placed] = {}

    def follow(self, change: Change) -> Placed | None:
        """The node of a changed pod; None = on none."""
        after = change.after
        found = self.seen(after) if isinstance(after, Pod) and holds(after) else None
        if found is not None or after is None:
            self.ahead.pop(change.uid, None)
            self._settle(change.uid, found)
        return found or self.ahead.get(change.uid)

    def place(self, pod: Pod, node: str, on: tuple[int, ...], cpus: HeldCpus | None) -> Placed:
        """Count a pod on a node from now on, ahead of the history, until it is observed there, gone or taken back."""
        terms = _terms_of(pod, self.dealt.get(pod.uid), node, on)
        placed = self.ahead[pod.uid] = Placed(pod, node, on, cpus, terms=terms)
        if on or cpus is not None:
            self.dealt[pod.uid] = Dealt(node, on, cpus=cpus, terms=terms)
        return placed

    def take_back(self, uid: str) -> Placed | None:
        """Count a pod placed ahead of the history on its recorded node again; None = on none."""
        self.ahead.pop(uid, None)
        pod = self._cluster.pods.get(uid)
        found = self.seen(pod) if pod is not None and holds(pod) else None
        self._settle(uid, found)
        return found

    def seen(self, pod: Pod) -> Placed:
        """A pod on its recorded node, with its cards and CPUs."""
        dealt = self.dealt.get(pod.uid)
        here = dealt if dealt is not None and dealt.node == pod.node else None
        is_new = here is None or not (here.cards or here.is_said)
        if is_new and holds(pod) and (pod.devices or self._requests.of(pod).has_devices):
            # The first annotation counts, also an empty one: a later change could be meant to free a card.
            cpus = here.cpus if here is not None else None
            here = self.dealt[pod.uid] = _as_annotated(pod, cpus)
        if here is None:
            return Placed(pod, pod.node)
        return Placed(pod, pod.node, here.cards, here.cpus, here.is_said and bool(here.cards), here.terms)  # fmt: skip

    def _settle(self, uid: str, found: Placed | None) -> None:
        """Forget the allocations of a pod that left its node, or is gone."""
        dealt = self.dealt.get(uid)
        if dealt is not None and (found is None or found.node != dealt.node):
            del self.dealt[uid]


def _terms_of(pod: Pod, known: Dealt | None, node: str, on: tuple[int, ...]) -> DeviceTerms | None:
    """A pod's device terms; at a repeated placement, for example after a restart, its terms before."""
    if known is not None and (known.node, known.cards) == (node, on):
        return known.terms
    return pod.constraints.devices if pod.constraints is not None else None


def _as_annotated(pod: Pod, cpus: HeldCpus | None) -> Dealt:
    """The devices in the annotation of a pod."""
    on = pod.devices or ()
    return Dealt(pod.node, on, is_said=True, cpus=cpus, terms=_terms_of(pod, None, pod.node, on))

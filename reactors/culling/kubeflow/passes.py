"""Kubeflow's culler as a fold over the history: one pass for each probe, on the stamps of the passes before it. Pure.

The stamps are those on the Notebook, as it was observed. A pass's changes are kept here until the object is observed changed,
so shadow mode decides, too. Each pass has its probe. Without a probe there is no pass, so unprobed
notebooks are never stopped. The time of a pass is that of its probe.

Source: docs/culling.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.events.notebooks import Evidence
from bus.go_time import Stamp
from bus.kube.crds.culling import KUBEFLOW_KEYS, STOPPED
from bus.notebooks.go_json import kernels_of
from projections.engine.parts import Part
from reactors.culling.kubeflow.annotations import Annotations, Notebook, without_bookkeeping
from reactors.culling.kubeflow.reconcile import reconcile
from reactors.culling.policy import KubeflowRules

_POD = "-0"


class CullerPass(msgspec.Struct, frozen=True):
    """The culler's state of one Notebook."""

    uid: str
    #: Its three annotations as the object had them when it was seen last, and as the passes since then would have them.
    seen: Annotations
    annotations: Annotations
    #: The decision of the newest due pass; "" = none since the stamps were changed from outside.
    decision: str = ""
    #: The time of that pass's probe.
    looked_us: int = 0


class SavedPasses(msgspec.Struct):
    """The passes in a snapshot."""

    rules: dict[str, Any] | None
    _books: dict[tuple[str, str], CullerPass]


class CullerPasses(Part):
    """Every Notebook, by namespace and name. ``rules`` None = Kubeflow's rules do not decide, and there are no passes."""

    Saved = SavedPasses

    def __init__(self) -> None:
        self.rules: KubeflowRules | None = None
        self._books: dict[tuple[str, str], CullerPass] = {}

    def saved(self) -> SavedPasses:
        """The state for a snapshot."""
        rules = self.rules.model_dump(mode="json") if self.rules is not None else None
        return SavedPasses(rules, self._books)

    def restore(self, saved: SavedPasses) -> None:
        """Load a snapshot. Raises ValueError for rules that this program cannot read."""
        self._books = saved._books
        if saved.rules is not None:
            self.rules = KubeflowRules.model_validate(saved.rules)

    def begin(self, rules: KubeflowRules | None) -> None:
        """Use these rules from now on, with the Notebooks' own stamps: a culler would not find changes kept only here."""
        self.rules = rules
        self._books = {place: _opened(one.uid, one.seen) for place, one in self._books.items()}

    def observed(self, uid: str, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Fold the observed object. Unchanged stamps may come from passes."""
        seen = {key: annotations[key] for key in KUBEFLOW_KEYS if key in annotations}
        known = self._books.get((namespace, name))
        if known is not None and known.uid == uid and known.seen == seen:
            return
        if known is not None and known.uid == uid and known.annotations == seen:
            found = msgspec.structs.replace(known, seen=seen)
        else:
            found = _opened(uid, seen)
        self._books[namespace, name] = found

    def lost(self, uid: str, namespace: str, name: str) -> None:
        """The object is gone; a successor of its name stays."""
        known = self._books.get((namespace, name))
        if known is not None and known.uid == uid:
            del self._books[namespace, name]

    def pod_gone(self, namespace: str, pod: str) -> None:
        """A pass without its pod takes the stamps away."""
        known = self.of(namespace, pod)
        if known is not None:
            place = namespace, pod.removesuffix(_POD)
            self._books[place] = msgspec.structs.replace(
                known, annotations=_without(known.annotations), decision="no_pod"
            )

    def looked(self, namespace: str, pod: str, evidence: Evidence, at_us: int) -> None:
        """One pass, where one is due."""
        known, rules = self.of(namespace, pod), self.rules
        if known is None or rules is None:
            return
        place = namespace, pod.removesuffix(_POD)
        done = reconcile(
            Notebook(*place, known.annotations | _stop_of(known)),
            pod_exists=True,
            kernels=kernels_of(evidence),
            idle_minutes=rules.idle_minutes,
            period_minutes=rules.period_minutes,
            now=Stamp(at_us * 1_000),
        )
        if done.decision == "too_soon":
            if not known.decision:
                self._books[place] = msgspec.structs.replace(
                    known, decision=done.decision, looked_us=at_us
                )
        else:
            kept = {k: v for k, v in (done.annotations or {}).items() if k != STOPPED}
            self._books[place] = msgspec.structs.replace(
                known, annotations=kept, decision=done.decision, looked_us=at_us
            )

    def of(self, namespace: str, pod: str) -> CullerPass | None:
        """The Notebook with a pod of this name; None if there is none."""
        if not pod.endswith(_POD):
            return None
        return self.named(namespace, pod.removesuffix(_POD))

    def named(self, namespace: str, name: str) -> CullerPass | None:
        """The Notebook of this name; None where there is none."""
        return self._books.get((namespace, name))

    def uids(self) -> list[str]:
        """Those of all Notebooks."""
        return [culler_pass.uid for culler_pass in self._books.values()]


def _stop_of(culler_pass: CullerPass) -> Annotations:
    """The object's stop key: a pass only decides, the effector writes."""
    return {STOPPED: culler_pass.seen[STOPPED]} if STOPPED in culler_pass.seen else {}


def _opened(uid: str, seen: Annotations) -> CullerPass:
    return CullerPass(uid, seen, _without(seen) if STOPPED in seen else seen)


def _without(annotations: Annotations) -> Annotations:
    bare = without_bookkeeping(Notebook("", "", annotations)).annotations or {}
    return {key: text for key, text in bare.items() if key != STOPPED}

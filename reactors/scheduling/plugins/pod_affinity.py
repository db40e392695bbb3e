"""InterPodAffinity: placement near some pods and far from others, by a label of the nodes.

The terms of placed pods count, too: their anti-affinity excludes the pod, and their affinity raises a node's score. Such a term
may name a label missing in the history, so it may match any pod: then it excludes, and prefers nothing.

Source: Kubernetes, "Inter-pod affinity and anti-affinity".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from bus.events.constraints import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PreferredPods,
    selects,
    without,
)
from projections.cluster import Pod
from reactors.scheduling.columns.crowds import Crowd, labels_of
from reactors.scheduling.columns.selectors import narrowed
from reactors.scheduling.columns.table import Bools, Columns, Ints, Rows
from reactors.scheduling.framework.contract import HIGHEST, ONE_CHANGE, SKIP, Cycle, Refused, Status
from reactors.scheduling.queueing.hints import Hint

NEAR = "node(s) didn't match pod affinity rules"
FAR = "node(s) didn't match pod anti-affinity rules"
OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity(msgspec.Struct, frozen=True):
    """Affinity and anti-affinity of pods.

    ``hard_weight``: a domain's score for each required affinity of its pods to the new pod.
    """

    name: ClassVar[str] = "InterPodAffinity"
    is_local: ClassVar[bool] = False
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE, Hint.PLACED})

    hard_weight: int = 1

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Without required terms, no node is refused."""
        affinity = _affinity(cycle.pod)
        own = _required(affinity.pod_affinity) or _required(affinity.pod_anti_affinity)
        return None if own or any(map(_keeps_away, cycle.columns.crowds.choosy())) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes too far, or too near."""
        columns, pod, refused = cycle.columns, cycle.pod, []
        near = ~_near(pod, columns)[rows]
        if near.any():
            refused.append(Refused(NEAR, near, near))
        left = ~near
        for reason, mask in ((FAR, _far(pod, columns)), (OTHERS, _unwanted(pod, columns))):
            # The first reason of a node counts.
            found = mask[rows] & left
            if found.any():
                refused.append(Refused(reason, found))
                left &= ~found
        return refused

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Change a term of affinity, of this pod or of others."""
        if not _near(cycle.pod, cycle.columns)[row]:
            return "require fewer pods near"
        if _far(cycle.pod, cycle.columns)[row]:
            return "let podAntiAffinity be preferred, not required"
        return "let the podAntiAffinity of the pods there be preferred, not required"

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """Sum the weights of all terms; without any, nodes are not scored."""
        totals = np.zeros(len(cycle.columns.nodes), np.int64)
        is_scored = False
        for key, weight, at, amounts in self._weighted(cycle.pod, cycle.columns):
            if (cycle.columns.labels.of(key)[at] != 0).any():
                is_scored = True
                totals += weight * cycle.columns.labels.per_domain(key, at, amounts)
        if not is_scored:
            return SKIP
        cycle.data[self.name] = totals
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The sum of the weights; may be negative."""
        totals: Ints = cycle.data[self.name][rows]
        return totals

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """From the worst to the best, with kube-scheduler's rounding."""
        lowest, span = scores.min(), scores.max() - scores.min()
        if not span:
            return np.zeros(scores.size, np.int64)
        parts = float(HIGHEST) * ((scores - lowest) / float(span))
        return np.asarray(parts, np.int64)

    def _weighted(self, pod: Pod, columns: Columns) -> Iterator[tuple[str, int, Ints, Ints]]:
        """(label of the domain, weight, rows, pods on them) of every term matching some pods."""
        own = _affinity(pod)
        preferred = [(one.weight, one.pod_affinity_term) for one in _preferred(own.pod_affinity)]
        preferred += [
            (-one.weight, one.pod_affinity_term) for one in _preferred(own.pod_anti_affinity)
        ]
        if preferred:
            for crowd in columns.crowds:
                for weight, term in preferred:
                    if _means(term, pod.namespace, labels_of(pod), crowd, columns):
                        yield term.topology_key, weight, *_on(crowd)
        for crowd in columns.crowds.choosy():
            theirs = crowd.affinity or Affinity()
            terms = [(self.hard_weight, one) for one in _required(theirs.pod_affinity)]
            terms += [(o.weight, o.pod_affinity_term) for o in _preferred(theirs.pod_affinity)]
            terms += [
                (-o.weight, o.pod_affinity_term) for o in _preferred(theirs.pod_anti_affinity)
            ]
            for weight, term in terms:
                if weight and not _is_vague(term, crowd) and _meant(term, crowd, pod, columns):
                    yield term.topology_key, weight, *_on(crowd)


def _keeps_away(crowd: Crowd) -> bool:
    """Whether pods have required anti-affinity."""
    return crowd.affinity is not None and bool(_required(crowd.affinity.pod_anti_affinity))


def _near(pod: Pod, columns: Columns) -> Bools:
    """Nodes in domains with the required neighbors."""
    terms, found = _required(_affinity(pod).pod_affinity), np.ones(len(columns.nodes), np.bool_)
    if not terms:
        return found
    labels = labels_of(pod)
    crowds = [
        crowd
        for crowd in columns.crowds
        if all(_means(one, pod.namespace, labels, crowd, columns) for one in terms)
    ]
    somewhere = False
    for term in terms:
        column = columns.labels.of(term.topology_key)
        counts = np.zeros(len(columns.nodes), np.int64)
        for crowd in crowds:
            counts += columns.labels.per_domain(term.topology_key, *_on(crowd))
        somewhere = somewhere or bool(counts.any())
        found &= (column != 0) & (counts > 0)
    if not somewhere:
        # The first of its kind may go anywhere.
        itself = Crowd(pod.namespace, labels, False, None)
        if all(_means(one, pod.namespace, labels, itself, columns) for one in terms):
            found = np.ones(len(columns.nodes), np.bool_)
            for term in terms:
                found &= columns.labels.of(term.topology_key) != 0
    return found


def _far(pod: Pod, columns: Columns) -> Bools:
    """Nodes in domains with pods excluded by the pod's anti-affinity."""
    found = np.zeros(len(columns.nodes), np.bool_)
    labels = labels_of(pod)
    for term in _required(_affinity(pod).pod_anti_affinity):
        for crowd in columns.crowds:
            if _means(term, pod.namespace, labels, crowd, columns):
                found |= columns.labels.per_domain(term.topology_key, *_on(crowd)) > 0
    return found


def _unwanted(pod: Pod, columns: Columns) -> Bools:
    """Nodes in domains with pods excluding the pod by their anti-affinity."""
    found = np.zeros(len(columns.nodes), np.bool_)
    for crowd in columns.crowds.choosy():
        for term in _required((crowd.affinity or Affinity()).pod_anti_affinity):
            if _meant(term, crowd, pod, columns):
                found |= columns.labels.per_domain(term.topology_key, *_on(crowd)) > 0
    return found


def _means(
    term: PodAffinityTerm, namespace: str, labels: Mapping[str, str], crowd: Crowd, columns: Columns
) -> bool:
    """Whether a term of a pod of this namespace and these labels matches the pods of a group."""
    selector = narrowed(
        term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys
    )
    return _reaches(term, namespace, crowd.namespace, columns) and selects(selector, crowd.labels)


def _meant(term: PodAffinityTerm, crowd: Crowd, pod: Pod, columns: Columns) -> bool:
    """Whether a term of the pods of a group matches a pod."""
    one = Crowd(pod.namespace, labels_of(pod), False, None)
    if _is_vague(term, crowd):
        known = without(term.label_selector, crowd.unkept)
        term = msgspec.structs.replace(term, label_selector=known, match_label_keys=None)
    return _means(term, crowd.namespace, crowd.labels, one, columns)


def _is_vague(term: PodAffinityTerm, crowd: Crowd) -> bool:
    """Whether a term of the pods of a group names a label missing in the history."""
    return term.label_selector != without(term.label_selector, crowd.unkept)


def _reaches(term: PodAffinityTerm, own: str, other: str, columns: Columns) -> bool:
    if not term.namespaces and term.namespace_selector is None:
        return own == other
    if other in (term.namespaces or ()):
        return True
    return selects(term.namespace_selector, columns.facts.namespace_labels(other))


def _on(crowd: Crowd) -> tuple[Ints, Ints]:
    rows = np.fromiter(crowd.on.keys(), np.int64, len(crowd.on))
    return rows, np.fromiter(crowd.on.values(), np.int64, len(crowd.on))


def _affinity(pod: Pod) -> Affinity:
    return (pod.constraints.affinity if pod.constraints else None) or Affinity()


def _required(part: PodAffinity | None) -> Sequence[PodAffinityTerm]:
    return (part.required or ()) if part is not None else ()


def _preferred(part: PodAffinity | None) -> Iterable[PreferredPods]:
    return (part.preferred or ()) if part is not None else ()

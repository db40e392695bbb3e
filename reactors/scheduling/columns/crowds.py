"""Pods on nodes, grouped by namespace, labels and terms, as selectors treat equal pods alike. Kept by the columns.

Pods have few of their labels in the history, so there are far fewer such groups than pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from bus.events.constraints import Affinity
from projections.cluster import Pod

_encode = msgspec.json.Encoder(order="sorted").encode

#: Namespace, labels, whether it is being deleted, terms of affinity, and their labels missing in the history.
Key = tuple[str, tuple[tuple[str, str], ...], bool, bytes, tuple[str, ...]]


class Crowd(msgspec.Struct):
    """Pods of one namespace with equal labels and equal terms of affinity."""

    namespace: str
    labels: Mapping[str, str]
    #: Their deletion was requested.
    is_terminating: bool
    affinity: Affinity | None
    #: Labels in its terms and missing in the history.
    unkept: tuple[str, ...] = ()
    #: The number of these pods on each row.
    on: dict[int, int] = {}


class Crowds:
    """All pods on nodes, grouped by equal namespace, labels and terms."""

    def __init__(self) -> None:
        self._all: dict[Key, Crowd] = {}
        #: Those with terms of affinity to other pods.
        self._choosy: dict[Key, Crowd] = {}

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """A pod came to a row (1), or left it (-1)."""
        labels, affinity = labels_of(pod), _affinity(pod)
        terms = _encode(affinity) if affinity is not None else b""
        unkept = pod.constraints.unkept_labels if affinity and pod.constraints else ()
        key = (pod.namespace, tuple(sorted(labels.items())), pod.is_terminating, terms, unkept)
        crowd = self._all.get(key)
        if crowd is None:
            crowd = Crowd(pod.namespace, labels, pod.is_terminating, affinity, unkept)
            self._all[key] = crowd
            if affinity is not None:
                self._choosy[key] = crowd
        count = crowd.on.get(row, 0) + sign
        if count:
            crowd.on[row] = count
        else:
            del crowd.on[row]
            if not crowd.on:
                del self._all[key]
                self._choosy.pop(key, None)

    def move(self, rows: Mapping[int, int]) -> None:
        """Renumber the rows."""
        for crowd in self._all.values():
            crowd.on = {rows[row]: count for row, count in crowd.on.items()}

    def __iter__(self) -> Iterator[Crowd]:
        return iter(self._all.values())

    def choosy(self) -> Iterable[Crowd]:
        """The groups with terms of affinity or anti-affinity."""
        return self._choosy.values()


def labels_of(pod: Pod) -> dict[str, str]:
    """The labels of a pod for selectors."""
    constraints = pod.constraints
    if constraints is None or not constraints.template_labels:
        return pod.labels
    return pod.labels | constraints.template_labels


def _affinity(pod: Pod) -> Affinity | None:
    affinity = pod.constraints.affinity if pod.constraints else None
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    return msgspec.structs.replace(affinity, node_affinity=None)

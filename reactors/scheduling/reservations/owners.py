"""Owners named in statuses: the reservations naming a pod. Pure but for its state.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 Reservation; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from projections.cluster import ClusterState, Pod
from projections.cluster.reservations import Reservation, is_active


class NamedOwners:
    """Reservations by their named owners. The index depends on the cluster's rows only, in any order of their observation."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        #: By pod, the uids of the reservations naming it.
        self._namers: dict[str, set[str]] = {}

    def change(self, uid: str, before: Iterable[str], after: Iterable[str]) -> None:
        """The status of a reservation names these pods, and no longer the rest of ``before``."""
        for pod in set(before).difference(after):
            namers = self._namers.get(pod, set())
            namers.discard(uid)
            if not namers:
                self._namers.pop(pod, None)
        for pod in after:
            self._namers.setdefault(pod, set()).add(uid)

    def may_own(self, row: Reservation, pod: Pod) -> bool:
        """Whether a pod is on the node of a reservation, and no earlier reservation there names it."""
        return pod.node == row.node and self.reservation(pod) in (None, row)

    def reservation(self, pod: Pod) -> Reservation | None:
        """The reservation on a pod's node naming it; of several the first by uid."""
        for uid in sorted(self._namers.get(pod.uid, ())):
            row = self._cluster.reservations.get(uid)
            if row is not None and row.node == pod.node and is_active(row.phase, row.node):
                return row
        return None

"""Pods with an end by observation: lists and heartbeats around it decide the length of their unknown time.

Source: docs/accounting.md, "An end by observation".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from projections.lists.parts import PodListPart
from projections.lists.recent import ALIVE_US
from projections.pod_runs import queries
from projections.pod_runs.memory import PodMemory

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]


class ObservedEnds:
    """Finds such pods by the time of the observation, stored ones and those of this batch."""

    def __init__(self, select: Select, pods: PodMemory) -> None:
        self._select = select
        self._pods = pods
        #: By cluster: when the newest such end was observed. Nearly all lists and beats are newer.
        self._newest: dict[str, int] = {}

    def open(self) -> None:
        """Take in the newest ends."""
        self._newest = queries.newest_observed(self._select)

    def put(self, cluster: str, observed_us: int | None) -> None:
        """The end of a pod was derived."""
        if observed_us is not None:
            self._newest[cluster] = max(self._newest.get(cluster, observed_us), observed_us)

    def after(self, part: PodListPart, uids: frozenset[str]) -> set[str]:
        """Pods for whose ends a list is a proof: they are of ``uids``, or it was asked for shortly before the observation."""
        later = self.between(part.cluster, part.time_us, None)
        found = {uid for uid in later if part.covers(uid) and uid in uids}
        return found | self.between(part.cluster, part.time_us, part.time_us + ALIVE_US)

    def between(self, cluster: str, since_us: int, until_us: int | None) -> set[str]:
        """Pods with an observed end in [since_us, until_us], loaded into memory."""
        if self._newest.get(cluster, since_us - 1) < since_us:
            return set()
        stored = queries.observed(self._select, cluster, since_us, until_us)
        self._pods.load(stored)
        return {
            uid
            for uid in (*stored, *self._pods.touched)
            if (row := self._pods.get(uid)) is not None
            and row.pod.cluster == cluster
            and row.run.observed_us is not None
            and since_us <= row.run.observed_us
            and (until_us is None or row.run.observed_us <= until_us)
        }

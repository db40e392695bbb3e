"""The rows around a pod: its namespace's owners, its nodes, and the workloads above it, over time.

Each timeline is read from its row once: every pod of a namespace or a node asks for it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bus.events.pods import Owner
from projections import namespaces, nodes, workloads
from projections.engine.contract import Key
from projections.engine.rows import KEPT, Rows
from projections.pod_runs.shape import Above, PodHistory
from projections.quota_trees import own


class Surroundings:
    """The rows around the pods of a folder."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._timelines: dict[tuple[str, type, str, str], tuple[Any, list[Any]]] = {}

    def above(self, pod: PodHistory) -> Above:
        """The workload at the top of a pod's controllers, and the quota names of the charged one."""
        if pod.owner is None:
            return Above()
        top, charged = workloads.tops(pod.controlled, self._workload, self._is_own)
        row = self._workload(charged.uid) if charged else None
        return Above(top) if row is None else Above(top, row.quotas(), row.deadline_s)

    def owners(self, key: Key) -> list[tuple[int, namespaces.Owners]]:
        """The owners of a namespace."""
        row = self._rows.get(namespaces.projection, key)
        return self._timeline("owners", row, row.owners) if row else []

    def models(self, key: Key) -> list[tuple[int, str | None]]:
        """The GPU model of a node."""
        row = self._rows.get(nodes.projection, key)
        return self._timeline("models", row, row.models) if row else []

    def sharing(self, key: Key) -> list[tuple[int, str]]:
        """A node's report about shared cards."""
        row = self._rows.get(nodes.projection, key)
        return self._timeline("sharing", row, row.sharing) if row and row.cards else []

    def settle(self) -> None:
        """Drop rows not needed in memory."""
        if len(self._timelines) > KEPT:
            self._timelines.clear()

    def _workload(self, uid: str) -> workloads.WorkloadHistory | None:
        row: workloads.WorkloadHistory | None = self._rows.get(workloads.projection, (uid,))
        return row

    def _is_own(self, found: workloads.Controlled, owner: Owner) -> bool:
        return own.is_own(self._rows.get(own.projection, (found.uid,)), found.kind, owner)

    def _timeline(self, of: str, row: Any, read: Callable[[], list[tuple[int, Any]]]) -> list[Any]:
        name = (of, type(row), row.cluster, row.name)
        known = self._timelines.get(name)
        if known is None or known[0] is not row:
            known = self._timelines[name] = (row, read())
        return known[1]

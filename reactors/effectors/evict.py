"""Ends a pod by the Eviction subresource, on the condition of its uid.

The API server answers 429 while a disruption budget allows no eviction. Then nothing was done. The outcome names the
budget, and the reactor decides again after a pause. A pod in deletion is done already.

Source: Kubernetes, "API-initiated Eviction"; docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from typing import Any, Protocol

from bus.crashpoints import crashpoint
from bus.errors import ClusterUnavailableError
from bus.events.decisions import Decision, Result

Json = dict[str, Any]

TOO_MANY = 429
#: The form of the API server's message about the obstacle.
BUDGET = "disruption budget"


class Evictions(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...

    async def evict(self, namespace: str, pod: str, *, uid: str) -> Json:
        """Ask for the pod's end."""
        ...


class EvictEffector:
    """Carries out evictions. Implements :class:`reactors.engine.runner.Effector`."""

    def __init__(self, cluster: Evictions) -> None:
        self._cluster = cluster

    async def act(self, decision: Decision) -> tuple[Result, str]:
        """Evict the pod, unless it is ending, or another one has its name."""
        target = decision.target
        found = await self._cluster.get(f"/api/v1/namespaces/{target.namespace}/pods/{target.name}")
        if found["metadata"]["uid"] != target.uid:
            return "gone", "another object has this name"
        if "deletionTimestamp" in found["metadata"]:
            return "done", "being deleted"
        crashpoint("evict.before_evict")
        try:
            await self._cluster.evict(target.namespace, target.name, uid=target.uid)
        except ClusterUnavailableError as error:
            # Any other 429 is an overloaded API server.
            if error.status != TOO_MANY or BUDGET not in error.message:
                raise
            return "refused", error.message
        crashpoint("evict.after_evict")
        return "done", ""

"""Warns of a stop, stops, and restores, each by the means of the object's own kind.

- Kubeflow Notebook: the stop annotation of its web UI. StatefulSet and Deployment: zero replicas, with the old count in
  an annotation. A pod without a controller: eviction, and this cannot be undone.
- One merge patch sets everything of a decision, its id included, on the condition of the uid and the version read before.
  So a finished decision is found by its id, and a user's restart after it stays.
- A patch of its own sets the replicas. ``rbac/fields.yaml`` allows it on marked workloads only. The patch before it
  marks the object with its generation. With the mark and the same generation, a scale is still to do; else it was done.
- The object shows the cause of the stop, as does an Event of events.k8s.io.
- **The clock.** Before an object is changed, an Event is made; the API server stamps it by its own clock. The stamp must be
  between the decision and now, give or take a minute. If not, our clock is wrong, and nothing is done: a clock set a
  year ahead would make everything idle, and evidence alone cannot reveal it.

Source: docs/culling.md; Kubernetes API reference (events.k8s.io/v1, Eviction); docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from bus.clock import Clock
from bus.crashpoints import crashpoint
from bus.errors import ConflictError
from bus.events.decisions import Decision, Restore, Result, Warn, Withdraw
from bus.kube.crds.culling import CULLED_BY, CULLS_AT, RESTORED_BY, SCALING, WARNED_BY
from reactors.culling.effectors.patches import (
    Json,
    annotations_of,
    event_of,
    is_in_time,
    is_scaled,
    patch_of,
    path_of,
    restoration,
    scale,
    scaled,
    stop,
    warning,
)

Outcome = tuple[Result, str]

#: Kinds that are stopped by zero replicas.
SCALED = frozenset({"StatefulSet", "Deployment"})
#: Attempts on an object that changes between read and write, before it waits for the next round.
ATTEMPTS = 4


class CullClient(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """A new object in the collection at ``path``."""
        ...

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """JSON merge patch."""
        ...

    async def evict(self, namespace: str, pod: str, *, uid: str) -> Json:
        """Ask for the pod's end."""
        ...


#: Probes a notebook once more before its stop. Returns a reason token against the stop; "" = none.
LastLook = Callable[[Decision], Awaitable[str]]


class CullEffector:
    """Carries out the decisions of culling. Implements :class:`reactors.engine.runner.Effector`.

    ``look`` closes the gap between the newest evidence (at most
    minutes old) and the stop. Without it, the last probe is skipped.
    """

    def __init__(self, cluster: CullClient, clock: Clock, look: LastLook | None = None) -> None:
        self._cluster = cluster
        self._clock = clock
        self._look = look

    async def act(self, decision: Decision) -> Outcome:
        """Carry out the decision, unless it is done, or the object was replaced.

        Controllers often change an object between read and write. Then it is read again.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._attempt(decision)
            except ConflictError:
                continue
        return await self._attempt(decision)

    async def _attempt(self, decision: Decision) -> Outcome:
        path = path_of(decision.target)
        found = await self._cluster.get(path)
        if found["metadata"]["uid"] != decision.target.uid:
            return "gone", "another object has this name"
        if isinstance(decision, Warn):
            return await self._warn(decision, path, found)
        if isinstance(decision, Withdraw):
            return await self._withdraw(path, found)
        if isinstance(decision, Restore):
            return await self._restore(decision, path, found)
        return await self._stop(decision, path, found)

    async def _warn(self, decision: Decision, path: str, found: Json) -> Outcome:
        if annotations_of(found).get(WARNED_BY) == decision.id:
            return "done", ""
        if not await self._announced(decision):
            return "refused", "clocks_disagree"
        await self._cluster.merge(path, patch_of(found, warning(decision)))
        return "done", ""

    async def _withdraw(self, path: str, found: Json) -> Outcome:
        if CULLS_AT in annotations_of(found) or WARNED_BY in annotations_of(found):
            await self._cluster.merge(path, patch_of(found, {CULLS_AT: None, WARNED_BY: None}))
        return "done", ""

    async def _stop(self, decision: Decision, path: str, found: Json) -> Outcome:
        is_begun = annotations_of(found).get(CULLED_BY) == decision.id
        is_pod = decision.target.kind == "Pod"
        if is_begun and not is_pod:
            return await self._stopped(decision, path, found)
        if "deletionTimestamp" in found["metadata"]:
            return "gone", "being deleted"
        patch = stop(decision, found)
        if patch is None:
            return "stale", "stopped already"
        if self._look is not None and decision.reason == "idle":
            against = await self._look(decision)
            if against:
                return "stale", f"{against} at the last look"
        if not await self._announced(decision):
            return "refused", "clocks_disagree"
        if not is_begun:
            crashpoint("cull.before_stop")
            found = await self._cluster.merge(path, patch)
        return await self._stopped(decision, path, found)

    async def _stopped(self, decision: Decision, path: str, found: Json) -> Outcome:
        """The effects after the patch with the decision."""
        outcome = await self._scale(decision, path, found)
        crashpoint("cull.after_stop")
        if decision.target.kind == "Pod":
            target = decision.target
            await self._cluster.evict(target.namespace, target.name, uid=target.uid)
            crashpoint("cull.after_evict")
        return outcome

    async def _restore(self, decision: Decision, path: str, found: Json) -> Outcome:
        if annotations_of(found).get(RESTORED_BY) != decision.id:
            if decision.target.kind == "Pod":
                return "refused", "an evicted pod is not made again"
            patch = restoration(decision, found)
            if patch is None:
                return "stale", "not stopped by this decision any more"
            crashpoint("cull.before_restore")
            found = await self._cluster.merge(path, patch)
        outcome = await self._scale(decision, path, found)
        crashpoint("cull.after_restore")
        return outcome

    async def _scale(self, decision: Decision, path: str, found: Json) -> Outcome:
        """Finish the scale announced by the mark on a workload. Without a mark, do nothing."""
        if decision.target.kind not in SCALED or SCALING not in annotations_of(found):
            return "done", ""
        patch = scale(decision, found)
        if patch is not None:
            crashpoint("cull.before_scale")
            await self._cluster.merge(path, patch)
            crashpoint("cull.after_scale")
        is_done = patch is not None or is_scaled(decision, found)
        await self._cluster.merge(path, scaled(decision, found, is_done=is_done))
        return ("done", "") if is_done else ("stale", "changed meanwhile")

    async def _announced(self, decision: Decision) -> bool:
        """Tell of it by an Event, and whether the API server's clock agrees with ours."""
        now_us, namespace = self._clock.now_us(), decision.target.namespace
        collection = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        body = event_of(decision, now_us)
        try:
            event = await self._cluster.create(collection, body)
        except ConflictError:
            event = await self._cluster.get(f"{collection}/{body['metadata']['name']}")
        return is_in_time(event["metadata"]["creationTimestamp"], decision, self._clock.now_us())

"""Warn of a stop, stop, and give back, each by the means of the object's own kind.

- Kubeflow Notebook: the stop annotation that its web UI sets, too. StatefulSet and Deployment: no replicas, the count kept in
  an annotation. A pod without a controller: eviction, which nobody can undo.
- One merge patch sets everything of a decision, its id included, on the condition of the uid and the version that was
  looked at. So a decision that was done already is found by its id, and a user's restart after it stays.
- Who stops what is seen on the object, and as an Event of events.k8s.io.
- **The clock.** Before an object is touched, an Event is made; the API server stamps it by its own clock. Where that
  is not between the decision and now, a minute to spare, our clock is wrong, and nothing is done: a clock that is set a
  year ahead would make everything idle, and evidence alone cannot tell.

Source: ``kubeflow.md`` A.1 and A.4; Kubernetes API reference (events.k8s.io/v1, Eviction); ``reliability.md`` P25, P29.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bus.clock import SECOND_US, Clock, format_stamp, parse_stamp
from bus.crashpoints import crashpoint
from bus.errors import ConflictError
from bus.events.decisions import Cull, Decision, Restore, Result, Target, Warn, Withdraw
from bus.resources.culling import (
    CULL_REASON,
    CULLED_BY,
    CULLS_AT,
    REPLICAS_BEFORE,
    RESTORED_BY,
    STOPPED,
    WARNED_BY,
)
from reactors.engine.effects import SKEW_US

Json = dict[str, Any]
Outcome = tuple[Result, str]

#: Looks at an object that changes under our hands, before it waits for the next round.
ATTEMPTS = 4

_PATHS = {
    "Notebook": "/apis/kubeflow.org/v1/namespaces/{}/notebooks/{}",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets/{}",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments/{}",
    "Pod": "/api/v1/namespaces/{}/pods/{}",
}
_VERSIONS = {"Notebook": "kubeflow.org/v1", "Pod": "v1"}


class Objects(Protocol):
    """The part of :class:`bus.kube.KubeCluster` that is needed here, with its errors."""

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


def path_of(target: Target) -> str:
    """Where the API server has the target."""
    return _PATHS[target.kind].format(target.namespace, target.name)


def warning(decision: Decision) -> dict[str, str]:
    """The annotations of a warning."""
    culls_us = decision.at_us + decision.numbers["warning_seconds"] * SECOND_US
    return {CULLS_AT: format_stamp(_whole(culls_us)), WARNED_BY: decision.id}


def stop(decision: Decision, found: Json) -> Json | None:
    """The patch that stops the object ``found``; None where it stands still already."""
    said = {
        CULLED_BY: decision.id,
        CULL_REASON: sentence(decision),
        CULLS_AT: None,
        WARNED_BY: None,
        RESTORED_BY: None,
    }
    if decision.target.kind == "Notebook":
        if STOPPED in _annotations(found):
            return None
        return _patch(found, {**said, STOPPED: format_stamp(_whole(decision.at_us))})
    if decision.target.kind == "Pod":
        return _patch(found, said)
    replicas = found["spec"].get("replicas", 1)
    if not replicas:
        return None
    return _patch(found, {**said, REPLICAS_BEFORE: str(replicas)}, {"replicas": 0})


def restoration(decision: Decision, found: Json) -> Json | None:
    """The patch that undoes the cull ``decision.key``; None where the object is not stopped by it any more."""
    annotations = _annotations(found)
    if annotations.get(CULLED_BY) != decision.key:
        return None
    said = {CULLED_BY: None, CULL_REASON: None, RESTORED_BY: decision.id}
    if decision.target.kind == "Notebook":
        return _patch(found, {**said, STOPPED: None}) if STOPPED in annotations else None
    before = annotations.get(REPLICAS_BEFORE, "")
    if found["spec"].get("replicas", 1) or not (before.isascii() and before.isdigit()):
        return None
    return _patch(found, {**said, REPLICAS_BEFORE: None}, {"replicas": int(before)})


def sentence(decision: Decision) -> str:
    """Why, for people."""
    if decision.reason == "max_age":
        return "It ran for longer than the policy allows."
    since = format_stamp(_whole(decision.numbers["last_activity_us"]))
    return f"Nobody used it since {since}; the limit is {decision.numbers['idle_seconds']} s."


def event_of(decision: Decision, now_us: int) -> Json:
    """The Event that tells of a decision; one decision makes one, by its name."""
    target = decision.target
    told = {
        Warn: ("CullWarning", f"{sentence(decision)} It will be stopped soon."),
        Cull: ("Culled", sentence(decision)),
    }
    reason, note = told[type(decision)]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"bursar.{decision.id}",
            "namespace": target.namespace,
        },
        "eventTime": f"{format_stamp(_whole(now_us))[:-1]}.000000Z",
        "reportingController": "bursar.io/culling",
        "reportingInstance": "bursar",
        "action": reason,
        "reason": reason,
        "type": "Warning",
        "note": note[:1024],
        "regarding": {
            "apiVersion": _VERSIONS.get(target.kind, "apps/v1"),
            "kind": target.kind,
            "namespace": target.namespace,
            "name": target.name,
            "uid": target.uid,
        },
    }


def is_in_time(created: str, decision: Decision, now_us: int) -> bool:
    """Whether the API server's stamp lies between the decision and now, a minute to spare on either side."""
    return decision.at_us - SKEW_US <= parse_stamp(created) <= now_us + SKEW_US


def _patch(found: Json, annotations: Json, spec: Json | None = None) -> Json:
    """A merge patch of what was looked at, and of nothing else."""
    metadata = {
        "uid": found["metadata"]["uid"],
        "resourceVersion": found["metadata"]["resourceVersion"],
        "annotations": annotations,
    }
    return {"metadata": metadata} | ({"spec": spec} if spec else {})


def _annotations(found: Json) -> dict[str, str]:
    return found["metadata"].get("annotations") or {}


def _whole(us: int) -> int:
    return us // SECOND_US * SECOND_US


class CullEffector:
    """Does what culling decides. Keeps :class:`reactors.engine.runner.Effector`."""

    def __init__(self, cluster: Objects, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    async def act(self, decision: Decision) -> Outcome:
        """Do it, unless it is done, or the object is another one by now.

        An object that changed between look and write, as controllers do it all the time, is looked at again.
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
        if _annotations(found).get(WARNED_BY) == decision.id:
            return "done", ""
        if not await self._told(decision):
            return "refused", "clocks_disagree"
        await self._cluster.merge(path, _patch(found, warning(decision)))
        return "done", ""

    async def _withdraw(self, path: str, found: Json) -> Outcome:
        if CULLS_AT in _annotations(found) or WARNED_BY in _annotations(found):
            await self._cluster.merge(path, _patch(found, {CULLS_AT: None, WARNED_BY: None}))
        return "done", ""

    async def _stop(self, decision: Decision, path: str, found: Json) -> Outcome:
        is_begun = _annotations(found).get(CULLED_BY) == decision.id
        is_pod = decision.target.kind == "Pod"
        if is_begun and not is_pod:
            return "done", ""
        if "deletionTimestamp" in found["metadata"]:
            return "gone", "being deleted"
        patch = stop(decision, found)
        if patch is None:
            return "stale", "stopped already"
        if not await self._told(decision):
            return "refused", "clocks_disagree"
        if not is_begun:
            crashpoint("cull.before_stop")
            await self._cluster.merge(path, patch)
            crashpoint("cull.after_stop")
        if is_pod:
            target = decision.target
            await self._cluster.evict(target.namespace, target.name, uid=target.uid)
            crashpoint("cull.after_evict")
        return "done", ""

    async def _restore(self, decision: Decision, path: str, found: Json) -> Outcome:
        if _annotations(found).get(RESTORED_BY) == decision.id:
            return "done", ""
        if decision.target.kind == "Pod":
            return "refused", "an evicted pod is not made again"
        patch = restoration(decision, found)
        if patch is None:
            return "stale", "not stopped by this decision any more"
        crashpoint("cull.before_restore")
        await self._cluster.merge(path, patch)
        crashpoint("cull.after_restore")
        return "done", ""

    async def _told(self, decision: Decision) -> bool:
        """Tell of it by an Event, and whether the API server's clock agrees with ours."""
        now_us, namespace = self._clock.now_us(), decision.target.namespace
        collection = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        body = event_of(decision, now_us)
        try:
            event = await self._cluster.create(collection, body)
        except ConflictError:
            event = await self._cluster.get(f"{collection}/{body['metadata']['name']}")
        return is_in_time(event["metadata"]["creationTimestamp"], decision, self._clock.now_us())

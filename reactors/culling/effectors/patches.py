"""Patches of objects to warn, to stop, and to restore, and the Event about each. Pure.

Source: docs/culling.md; Kubernetes API reference (events.k8s.io/v1, Scale); kubernetes/pkg/registry/apps/
deployment/strategy.go, PrepareForUpdate (annotations of a Deployment make another generation).
"""

from __future__ import annotations

import re
from typing import Any

from bus.clock import SECOND_US, format_stamp, parse_stamp
from bus.events.decisions import Cull, Decision, Target, Warn
from bus.kube.crds.culling import (
    CHECKED_AT,
    CULL_REASON,
    CULLED_BY,
    CULLS_AT,
    LAST_ACTIVITY,
    REPLICAS_BEFORE,
    RESTORED_BY,
    SCALING,
    STOPPED,
    WARNED_BY,
)
from reactors.engine.effects import SKEW_US

Json = dict[str, Any]

#: A number of replicas; users can write the annotation, too, and no more than these digits are read.
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)

_PATHS = {
    "Notebook": "/apis/kubeflow.org/v1/namespaces/{}/notebooks/{}",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets/{}",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments/{}",
    "Pod": "/api/v1/namespaces/{}/pods/{}",
}
_VERSIONS = {"Notebook": "kubeflow.org/v1", "Pod": "v1"}


def path_of(target: Target) -> str:
    """Where the API server has the target."""
    return _PATHS[target.kind].format(target.namespace, target.name)


def warning(decision: Decision) -> dict[str, str]:
    """The annotations of a warning."""
    culls_us = decision.at_us + decision.numbers["warning_seconds"] * SECOND_US
    return {CULLS_AT: format_stamp(_whole(culls_us)), WARNED_BY: decision.id}


def stop(decision: Decision, found: Json) -> Json | None:
    """The patch that stops the object ``found``; None if it is stopped already.

    A workload is only marked by it: :func:`scale` stops it then.
    """
    marks = {
        CULLED_BY: decision.id,
        CULL_REASON: sentence(decision),
        CULLS_AT: None,
        WARNED_BY: None,
        RESTORED_BY: None,
    }
    if decision.target.kind == "Notebook":
        if STOPPED in annotations_of(found):
            return None
        # Kubeflow's culler removes its stamps at its next pass. A restart before that must not find the old ones.
        bare = {LAST_ACTIVITY: None, CHECKED_AT: None}
        return patch_of(found, {**marks, **bare, STOPPED: format_stamp(_whole(decision.at_us))})
    if decision.target.kind == "Pod":
        return patch_of(found, marks)
    replicas = found["spec"].get("replicas", 1)
    if not replicas:
        return None
    return patch_of(found, {**marks, REPLICAS_BEFORE: str(replicas), SCALING: _marked(found)})


def restoration(decision: Decision, found: Json) -> Json | None:
    """The patch that undoes the cull ``decision.key``; None if that cull no longer stops the object.

    A workload is only marked by it: :func:`scale` restores it then, and :func:`scaled` removes the marks.
    """
    annotations = annotations_of(found)
    if annotations.get(CULLED_BY) != decision.key:
        return None
    marks = {CULLED_BY: None, CULL_REASON: None, RESTORED_BY: decision.id}
    if decision.target.kind == "Notebook":
        return patch_of(found, {**marks, STOPPED: None}) if STOPPED in annotations else None
    before = annotations.get(REPLICAS_BEFORE, "")
    if found["spec"].get("replicas", 1) or not _COUNT.fullmatch(before):
        return None
    return patch_of(found, {RESTORED_BY: decision.id, SCALING: _marked(found)})


def scale(decision: Decision, found: Json) -> Json | None:
    """The patch of a marked workload's replicas; None if it changed since the mark.

    Then it was scaled before, or its owner changed it: :func:`is_scaled` decides. Either way it is not patched.
    """
    metadata = found["metadata"]
    if annotations_of(found).get(SCALING) != str(metadata["generation"]):
        return None
    before = annotations_of(found).get(REPLICAS_BEFORE, "")
    if not isinstance(decision, Cull) and not _COUNT.fullmatch(before):
        return None
    only = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    replicas = 0 if isinstance(decision, Cull) else int(before)
    return {"metadata": only, "spec": {"replicas": replicas}}


def is_scaled(decision: Decision, found: Json) -> bool:
    """Whether a workload has the state of the decision."""
    return bool(found["spec"].get("replicas", 1)) is not isinstance(decision, Cull)


def scaled(decision: Decision, found: Json, *, is_done: bool) -> Json:
    """The patch that ends a scale, or gives it up. Its controller
    writes the object meanwhile, so its version is no condition."""
    gone = {SCALING: None}
    if isinstance(decision, Cull) is not is_done:
        gone |= {CULLED_BY: None, CULL_REASON: None, REPLICAS_BEFORE: None}
    elif not is_done:
        gone |= {RESTORED_BY: None}
    return {"metadata": {"uid": found["metadata"]["uid"], "annotations": gone}}


def _marked(found: Json) -> str:
    """The generation of the object with the mark on it: of a Deployment an annotation makes another one."""
    generation: int = found["metadata"]["generation"]
    return str(generation + (found.get("kind") == "Deployment"))


def sentence(decision: Decision) -> str:
    """Why, for people."""
    if decision.reason == "max_age":
        return "It ran for longer than the policy allows."
    since = format_stamp(_whole(decision.numbers["last_activity_us"]))
    return f"Nobody used it since {since}; the limit is {decision.numbers['idle_seconds']} s."


def event_of(decision: Decision, now_us: int) -> Json:
    """The Event about a decision. Its name follows from the decision, so it is made once."""
    target = decision.target
    events = {
        Warn: ("CullWarning", f"{sentence(decision)} It will be stopped soon."),
        Cull: ("Culled", sentence(decision)),
    }
    reason, note = events[type(decision)]
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


def patch_of(found: Json, annotations: Json) -> Json:
    """A merge patch of exactly the object read before."""
    metadata = {
        "uid": found["metadata"]["uid"],
        "resourceVersion": found["metadata"]["resourceVersion"],
        "annotations": annotations,
    }
    return {"metadata": metadata}


def annotations_of(found: Json) -> dict[str, str]:
    """The annotations of an object; empty where it has none."""
    return found["metadata"].get("annotations") or {}


def _whole(us: int) -> int:
    return us // SECOND_US * SECOND_US

"""Pods as the API server shows them, in part, and the facts of them."""

from bus.events.pods import PodObserved
from bus.sources import pods
from tests.bus.sources.records import POLICY, record

METADATA = {"uid": "u1", "name": "p", "namespace": "team-a", "resourceVersion": "7"}


def pod(spec=None, status=None, **metadata):
    return {"metadata": METADATA | metadata, "spec": spec or {}, "status": status or {}}


def observed(thing, policy=POLICY):
    return PodObserved.read(pods.translate(record(thing), policy))


def condition(kind, status="True", **more):
    return {"type": kind, "status": status, "lastTransitionTime": "2026-10-26T07:55:28Z", **more}


def ended(at, name="main", code=0):
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": at}}}


def finished(*statuses, phase="Failed", containers=("main",), init=(), **status):
    """A pod in phase ``phase``; ``init``: its init containers' names, a sidecar's begins with ``side``."""
    spec = {"containers": [{"name": name} for name in containers]}
    spec["initContainers"] = [
        {"name": name} | ({"restartPolicy": "Always"} if name.startswith("side") else {}) for name in init
    ]  # fmt: skip
    of_init = [one for one in statuses if one["name"] in init]
    regular = [one for one in statuses if one["name"] not in init]
    shown = {"phase": phase, "containerStatuses": regular, "initContainerStatuses": of_init}
    return pod(spec, {**shown, **status})

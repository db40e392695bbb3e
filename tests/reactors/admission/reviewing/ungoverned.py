"""Objects of every governed kind, and the reviews of an ordinary life, for tests in memory."""

from bus.events.pods import Owner
from bus.kube.kinds import GOVERNED
from tests.reactors.admission.below import CONTROLLER

BY_NAME = {kind.kind: kind for kind in GOVERNED}
POD_SPEC = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}
#: The garbage collector of a cluster whose controllers have accounts of their own.
COLLECTOR = {**CONTROLLER, "user": "system:serviceaccount:kube-system:generic-garbage-collector"}


def addressed(kind):
    """How reviews name the kind."""
    return {
        "group": kind.group, "version": kind.versions[0], "resource": kind.resource, "kind": kind.kind,
    }  # fmt: skip


def sample(kind, uid, namespace="free", *, by=None, version="", **labels):
    """An object of a kind with one pod of two cores in each set, ``by`` a controller given as (kind, uid)."""
    metadata = {"name": uid, "namespace": namespace, "uid": uid, "labels": dict(labels)}
    if version:
        metadata["resourceVersion"] = str(version)
    if by is not None:
        metadata["ownerReferences"] = [reference(*by)]
    item = {"metadata": metadata}
    if kind.has_runtime:
        return item | {"spec": {"runtimeRef": {"name": "no-such-runtime"}}}
    for one in kind.sets:
        if one.template == "":
            if not one.at:
                item["spec"] = POD_SPEC
            continue
        steps = [*filter(None, one.at.replace("*", "worker").split(".")), *one.template.split(".")]
        _put(item, steps, {"spec": POD_SPEC})
    return item


def _put(item, steps, value):
    for step in steps[:-1]:
        item = item.setdefault(step, {})
    item[steps[-1]] = value


def reference(kind, uid):
    """The reference to a controller."""
    entry = BY_NAME[kind]
    api = f"{entry.group}/{entry.versions[0]}" if entry.group else entry.versions[0]
    return {"apiVersion": api, "kind": kind, "name": uid, "uid": uid, "controller": True}


def scale(uid, replicas, before, namespace="free", version="5"):
    """The two objects of a review of a scale."""
    metadata = {"name": uid, "namespace": namespace, "uid": uid, "resourceVersion": version}
    parts = {"item": replicas, "old_object": before}
    return {name: {"metadata": metadata, "spec": {"replicas": n}} for name, n in parts.items()}


def of_owner(by):
    """The controller as facts say it."""
    return Owner(by[0], by[1], by[1]) if by is not None else None

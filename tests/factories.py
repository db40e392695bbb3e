"""Events with defaults: what a source would publish, told by uid, version and seconds.

Times are seconds after :data:`START`, whole or with a fraction; ``at`` is when the source observed it.
"""

from collections.abc import Iterable
from functools import partial

import msgspec

from bus.amounts import ContainerResources, PodResources
from bus.clock import format_stamp, parse_stamp
from bus.events.namespaces import NamespaceObserved, NamespaceVanished
from bus.events.nodes import NodeObserved, NodeVanished
from bus.events.observations import ObjectsListed
from bus.events.pods import (
    DisruptionBudgetObserved,
    Owner,
    PodObserved,
    PodsListed,
    PodVanished,
    encoded_resources,
)
from bus.events.quotas import QuotaObserved, QuotaVanished
from bus.events.volumes import ClaimObserved, VolumeObserved
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.kube.watch.lists import listed

START = "2026-10-26T08:00:00Z"
START_US = parse_stamp(START)
START_S = START_US // 1_000_000

CLUSTER = "c"


def us(seconds):
    """Microseconds UTC of a second after the start."""
    return START_US + round(seconds * 1_000_000)


def stamp(seconds):
    """A stamp as the API server writes it; None and texts stay what they are."""
    if seconds is None or isinstance(seconds, str):
        return seconds
    return format_stamp(us(seconds))


def resources(cpu="1", memory="1Gi", gpu=0):
    """What one container asks for."""
    requests = {"cpu": str(cpu), "memory": str(memory)}
    if gpu:
        requests["nvidia.com/gpu"] = str(gpu)
    return encoded_resources(PodResources(containers=(ContainerResources(requests=requests),)))


def requesting(*containers):
    """The resources of containers, each given as its requests."""
    found = tuple(ContainerResources(requests=one) for one in containers)
    return encoded_resources(PodResources(containers=found))


def owner(uid, kind="ReplicaSet", name=None):
    """A controller reference."""
    return Owner(kind, name or uid, uid)


def pod_observed(uid="p", version=1, at=0, **fields):
    """A pod was seen: bound to node ``n`` since second 0 unless told otherwise."""
    return _pod(PodObserved, uid, version, at, fields)


def pod_vanished(uid="p", version=9, at=100, **fields):
    """A pod's DELETED record, with the deletion stamp ``deletion`` and grace 0 where one is given."""
    if fields.get("deletion") is not None:
        fields.setdefault("grace_seconds", 0)
    return _pod(PodVanished, uid, version, at, fields)


def _pod(fact, uid, version, at, fields):
    fields = {"created": 0, "node": "n", "namespace": "ns", **fields}
    fields.setdefault("phase", "Running" if fields["node"] else "Pending")
    fields.setdefault("name", uid)
    if fields["node"] is not None:
        fields.setdefault("scheduled", fields["created"])
    for name in (
        "created",
        "scheduled",
        "deletion",
        "disrupted",
        "acknowledged",
        "init_finished",
        "written",
    ):
        if name in fields:
            fields[name] = stamp(fields[name])
    for name in ("finished", "evidence"):
        fields[name] = tuple(stamp(s) for s in fields.get(name, ()))
    asked = {name: fields.pop(name) for name in ("cpu", "memory", "gpu") if name in fields}
    fields.setdefault("resources", resources(**asked))
    cluster = fields.pop("cluster", CLUSTER)
    body = fact(uid=uid, resource_version=str(version), **fields)
    return said(body, key=uid, id=f"{fact.wire_type}/{uid}/{version}", at=at, cluster=cluster)


def namespace_observed(name="ns", version=1, at=0, *, cluster=CLUSTER, **fields):
    """A namespace was seen, with ``team`` and ``user`` where given."""
    fields.setdefault("uid", f"namespace-{name}")
    body = NamespaceObserved(name=name, resource_version=str(version), **fields)
    return said(body, key=name, id=f"namespace.observed/{name}/{version}", at=at, cluster=cluster)


def namespace_vanished(name="ns", version=9, at=100, *, cluster=CLUSTER):
    """A namespace was deleted."""
    body = NamespaceVanished(uid=f"namespace-{name}", name=name, resource_version=str(version))
    return said(body, key=name, id=f"namespace.vanished/{name}/{version}", at=at, cluster=cluster)


def node_observed(name="n", version=1, at=0, *, cluster=CLUSTER, **fields):
    """A node was seen, with its GPU ``model`` where given."""
    fields = {"uid": f"node-{name}", "ready": True, **fields}
    body = NodeObserved(name=name, resource_version=str(version), **fields)
    return said(body, key=name, id=f"node.observed/{name}/{version}", at=at, cluster=cluster)


def node_vanished(name="n", version=9, at=100, *, uid=None, cluster=CLUSTER):
    """A node was deleted."""
    body = NodeVanished(uid=uid or f"node-{name}", name=name, resource_version=str(version))
    return said(body, key=name, id=f"node.vanished/{name}/{version}", at=at, cluster=cluster)


def disruption_budget_observed(name="b", version=1, at=0, *, cluster=CLUSTER, **fields):
    """A disruption budget was seen."""
    fields = {"uid": f"budget-{name}", "namespace": "ns", **fields}
    body = DisruptionBudgetObserved(name=name, resource_version=str(version), **fields)
    return said(body, key=body.uid, id=f"disruptionbudget.observed/{name}/{version}", at=at, cluster=cluster)  # fmt: skip


def claim_observed(name="c", version=1, at=0, *, cluster=CLUSTER, **fields):
    """A claim of a volume was seen."""
    fields = {"uid": f"claim-{name}", "namespace": "ns", **fields}
    body = ClaimObserved(name=name, resource_version=str(version), **fields)
    return said(body, key=body.uid, id=f"{body.wire_type}/{body.uid}/{version}", at=at, cluster=cluster)  # fmt: skip


def volume_observed(name="v", version=1, at=0, *, cluster=CLUSTER, **fields):
    """A volume was seen."""
    body = VolumeObserved(name=name, resource_version=str(version), **{"uid": f"volume-{name}", **fields})  # fmt: skip
    return said(body, key=body.uid, id=f"{body.wire_type}/{body.uid}/{version}", at=at, cluster=cluster)  # fmt: skip


def workload_observed(uid="w", version=1, at=0, *, cluster=CLUSTER, **fields):
    """A workload was seen, with its controller ``owner`` where given."""
    fields = {"kind": "ReplicaSet", "namespace": "ns", "name": uid, **fields}
    body = WorkloadObserved(uid=uid, resource_version=str(version), **fields)
    return said(body, key=uid, id=f"workload.observed/{uid}/{version}", at=at, cluster=cluster)


def workload_vanished(uid="w", version=9, at=100, *, cluster=CLUSTER, **fields):
    """A workload was deleted."""
    fields = {"kind": "ReplicaSet", "namespace": "ns", "name": uid, **fields}
    body = WorkloadVanished(uid=uid, resource_version=str(version), **fields)
    return said(body, key=uid, id=f"workload.vanished/{uid}/{version}", at=at, cluster=cluster)


def quota_observed(name="q", version=1, at=0, *, cluster=CLUSTER, **fields):
    """A quota was seen: a BizGroupResourceQuota unless told otherwise."""
    fields = {"kind": "BizGroupResourceQuota", "uid": f"quota-{name}", **fields}
    body = QuotaObserved(name=name, resource_version=str(version), **fields)
    id = f"quota.observed/{body.uid}/{version}"
    return said(body, key=body.uid, id=id, at=at, cluster=cluster)


def quota_vanished(name="q", version=9, at=100, *, cluster=CLUSTER, **fields):
    """A quota was deleted."""
    fields = {"kind": "BizGroupResourceQuota", "uid": f"quota-{name}", **fields}
    body = QuotaVanished(name=name, resource_version=str(version), **fields)
    id = f"quota.vanished/{body.uid}/{version}"
    return said(body, key=body.uid, id=id, at=at, cluster=cluster)


def pods_listed(uids: Iterable[str] = (), version="", at=0, *, cluster=CLUSTER, per_part=1000):
    """One complete list, as the events of its parts; usually one."""
    return listed(
        PodsListed,
        uids,
        resource_version=str(version),
        time_us=us(at),
        cluster=cluster,
        source="test",
        per_part=per_part,
    )


def objects_listed(kind, uids: Iterable[str] = (), version="", at=0):
    """One complete list of objects of a kind, as the events of its parts."""
    return listed(
        partial(ObjectsListed, kind=kind), uids, resource_version=str(version), time_us=us(at),
        cluster=CLUSTER, source="test", name=kind,
    )  # fmt: skip


def said(body, *, key, id, at, cluster=CLUSTER):
    """``body`` as an event that was observed ``at`` seconds after the start."""
    return body.event(cluster=cluster, key=key, id=id, source="test", time_us=us(at))


def numbered(events, first=1):
    """The events with the sequences a bus would give them; lists among them are laid flat."""
    flat = []
    for event in events:
        flat += event if isinstance(event, list) else [event]
    return [msgspec.structs.replace(e, sequence=n) for n, e in enumerate(flat, first)]

"""What hangs below owners, for tests in memory: who asks, and objects with the controller that they name."""

from bus.events.pods import Owner
from tests.reactors.cluster import QUOTA

#: The controllers of Kubernetes act as service accounts of kube-system.
CONTROLLER = {
    "user": "system:serviceaccount:kube-system:some-controller",
    "groups": ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
}  # fmt: skip
OF = {
    "Pod": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod"},
    "ReplicaSet": {"group": "apps", "version": "v1", "resource": "replicasets", "kind": "ReplicaSet"},
    "Deployment": {"group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment"},
    "StatefulSet": {
        "group": "apps", "version": "v1", "resource": "statefulsets", "kind": "StatefulSet"
    },
    "DaemonSet": {"group": "apps", "version": "v1", "resource": "daemonsets", "kind": "DaemonSet"},
    "Job": {"group": "batch", "version": "v1", "resource": "jobs", "kind": "Job"},
    "CronJob": {"group": "batch", "version": "v1", "resource": "cronjobs", "kind": "CronJob"},
    "PyTorchJob": {
        "group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs", "kind": "PyTorchJob"
    },
}  # fmt: skip
GROUPS = {
    "ReplicaSet": "apps/v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
    "Job": "batch/v1", "CronJob": "batch/v1", "Rollout": "argoproj.io/v1alpha1", "Node": "v1",
    "PyTorchJob": "kubeflow.org/v1",
}  # fmt: skip


def owner(kind, uid):
    """The controller as facts say it."""
    return Owner(kind=kind, name=uid, uid=uid)


def made(kind, uid, cpu, replicas=1, *, by=None, quota="team", version="", api="", **metadata):
    """An object of `replicas` pods of `cpu` cores, `by` a controller given as (kind, uid)."""
    limits = {"cpu": str(cpu)}
    pod = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    metadata = {"name": uid, "namespace": "ns", "uid": uid} | metadata
    if quota:
        metadata["labels"] = {QUOTA: quota}
    if version:
        metadata["resourceVersion"] = str(version)
    if by is not None:
        reference = {"apiVersion": api or GROUPS[by[0]], "kind": by[0], "name": by[1], "uid": by[1]}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    template = {"spec": pod}
    if kind == "Pod":
        return {"metadata": metadata, "spec": pod}
    if kind == "Job":
        spec = {"parallelism": replicas, "completions": replicas, "template": template}
    elif kind == "CronJob":
        spec = {"jobTemplate": {"spec": {"parallelism": replicas, "template": template}}}
    elif kind == "PyTorchJob":
        spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": replicas, "template": template}}}
    elif kind == "DaemonSet":
        spec = {"template": template}
    else:
        spec = {"replicas": replicas, "template": template}
    return {"metadata": metadata, "spec": spec}


async def ask(cluster, kind, uid, cpu, replicas=1, *, before=None, user=None, **fields):
    """A review of :func:`made`; of its change where it was `before`."""
    how = {"operation": "UPDATE", "old_object": before} if before is not None else {}
    return await cluster.review(
        made(kind, uid, cpu, replicas, **fields), **OF[kind], **how, **(user or {})
    )


async def begin(cluster, kind, uid, cpu, replicas=1, *, by=None, user=None, **fields):
    """An object that is admitted and seen."""
    answer = await ask(cluster, kind, uid, cpu, replicas, by=by, user=user)
    assert answer.allowed, answer
    await show(cluster, kind, uid, cpu, replicas, by=by, **fields)
    return answer


async def show(cluster, kind, uid, cpu, replicas=1, *, by=None, **fields):
    """An object, or a pod, is seen."""
    above = owner(*by) if by else None
    if kind == "Pod":
        return await cluster.see_pod(uid, cpu, owner=above, **fields)
    amounts = {f"{side}.cpu": int(cpu * 1000) for side in ("limits", "requests")}
    await cluster.see(
        uid,
        cpu * replicas,
        kind=kind,
        owner=above,
        per_replica=amounts,
        replicas=replicas,
        **fields,
    )


async def deployed(cluster, cpu=4, replicas=2):
    """A Deployment `web` with its ReplicaSet `web-1`, and pods `web-1-0` … that run."""
    await begin(cluster, "Deployment", "web", cpu, replicas)
    of_web = {"by": ("Deployment", "web"), "user": CONTROLLER}
    assert (
        await begin(cluster, "ReplicaSet", "web-1", cpu, replicas, **of_web)
    ).reason == "covered"
    for number in range(replicas):
        of_set = {"by": ("ReplicaSet", "web-1"), "user": CONTROLLER}
        answer = await begin(cluster, "Pod", f"web-1-{number}", cpu, **of_set)
        assert answer.reason == "covered"

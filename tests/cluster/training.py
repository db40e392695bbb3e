"""Training jobs for tests at a real API server: the kinds, objects, and decisions about them."""

from pathlib import Path

from bus.events.decisions import (
    AdoptReplica,
    CreateReplica,
    DeleteJob,
    DeleteReplica,
    EndPodGroup,
    KeepPodGroup,
    ReportJob,
    Target,
)
from bus.events.pods import Owner
from bus.events.workloads import ReplicaCounts, WorkloadCondition
from bus.kube.kinds import GOVERNED
from reactors.engine.contract import decision_id
from tests.reactors.jobs import running

CRDS = Path(__file__).parents[2] / "deploy" / "manifests" / "training" / "crds.yaml"
PODS = "/api/v1/namespaces/{}/pods"
_PATHS = {one.kind: one.path for one in GOVERNED}


def path_of(kind, namespace="default"):
    group, _, resource = _PATHS[kind].rpartition("/")
    return f"{group}/namespaces/{namespace}/{resource}"


def job(name, kind, namespace="default", **fields):
    body = running.job(name, kind, **fields)
    return body | {"metadata": {"name": name, "namespace": namespace}}


def create(found, index=0, attempt=1):
    name = f"{found['metadata']['name']}-worker-{index}-{attempt}"
    numbers = {"index": index}
    return _step(CreateReplica, found, name, numbers=numbers, replica=name, type="Worker", attempt=attempt)  # fmt: skip


def delete(found, pod, reason="finished"):
    meta = pod["metadata"]
    target = Target("Pod", meta["namespace"], meta["name"], meta["uid"])
    uid = found["metadata"]["uid"]
    given = {"target": target, "reason": reason, "job": uid, "type": "worker", "attempt": 1}
    return _step(DeleteReplica, found, meta["uid"], **given)


def adopt(found, service):
    meta, job = service["metadata"], found["metadata"]
    target = Target("Service", meta["namespace"], meta["name"], meta["uid"])
    owner = Owner(found["kind"], job["name"], job["uid"])
    return _step(AdoptReplica, found, meta["uid"], target=target, owner=owner)


def keep(found, api, group="", least=2):
    key = f"{api}/{group}/{least}"
    return _step(KeepPodGroup, found, key, api=api, least=least, requests={"cpu": 500}, group=group)


def end_group(found, api, group):
    meta = found["metadata"]
    target = Target(api, meta["namespace"], meta["name"], group)
    return _step(EndPodGroup, found, group, target=target, job=meta["uid"])


def report(found, *types):
    kind = found["kind"]
    conditions = tuple(
        WorkloadCondition(one, "True", f"{kind}{one}") for one in types or ("Created", "Succeeded")
    )
    counts = {"Worker": ReplicaCounts(0, 2, 0)}
    events = tuple(f"Normal {one.reason}" for one in conditions if one.type == "Succeeded")
    return _step(
        ReportJob, found, "status", conditions=conditions, counts=counts, start_us=1, events=events,
    )  # fmt: skip


def end(found):
    return _step(DeleteJob, found, "end")


def _step(verb, found, key, **fields):
    meta = found["metadata"]
    fields.setdefault("target", Target(found["kind"], meta["namespace"], meta["name"], meta["uid"]))
    return verb(**{
        "id": decision_id("jobs", 1, key), "reactor": "jobs", "rules": 2, "key": key, "trigger": 1, "at_us": 1,
        "policy": "p", "is_shadow": False, "reason": "test", "expires_us": 2**53, **fields,
    })  # fmt: skip

"""Discovery among the pods of a job: names, labels and environment of each. Pure.

Source: Kubeflow training-operator v1, ``tensorflow/tensorflow.go``, ``pytorch/envvar.go``, ``xgboost/xgboost.go``,
``paddlepaddle/envvar.go``, ``jax/envvar.go``; docs/jobs.md.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from bus.events.pods import NATIVE, VOLCANO
from bus.events.workloads import ReplicaSpec
from reactors.jobs.replicas import EXIT_CODE, replica_name
from reactors.jobs.shape import INDEX, JOB, OPERATOR, ROLE, TYPE, GangScheduler, Job, Slot, api_of

#: The annotation in which a gang's scheduler reads the pods' group.
VOLCANO_GROUP, VOLCANO_TASK = "scheduling.k8s.io/group-name", "volcano.sh/task-spec"
PLUGINS_GROUP = "scheduling.x-k8s.io/pod-group"
#: Where a variable names it, the pod's own address.
POD_IP = "POD_IP_DUMMY"


class PodPlan(msgspec.Struct, frozen=True):
    """The additions to a pod's template."""

    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    restart_policy: str
    scheduler_name: str
    environment: dict[str, str]
    #: The named PodGroup of Kubernetes' own API.
    group: str = ""


def pod_plan(
    job: Job,
    slot: Slot,
    gang: GangScheduler | None,
    domain: str = "",
    *,
    has_variables: bool = True,
) -> PodPlan:
    """The pod of one slot. ``domain`` follows the names of services in ``TF_CONFIG``.

    ``has_variables``: False leaves the environment out. That of a TFJob names all its pods, for each pod.
    """
    spec, type = job.spec.replicas[slot.type], slot.type.lower()
    labels = {OPERATOR: job.rules.operator, JOB: job.name, TYPE: type, INDEX: str(slot.index)}
    is_first = job.rules.worker_leads and slot.type == "Worker" and slot.index == 0
    if slot.type == job.leader or (not job.leader and is_first):
        labels[ROLE] = "master"
    annotations, scheduler, group = dict[str, str](), spec.scheduler_name, ""
    if gang is not None:
        api = api_of(gang)
        scheduler = scheduler or (gang.scheduler if api != NATIVE else "")
        if api == VOLCANO:
            annotations = {VOLCANO_GROUP: job.name, VOLCANO_TASK: type}
        elif api == NATIVE:
            group = job.name
        else:
            labels[PLUGINS_GROUP] = job.name
    policy = job.policy(spec)
    return PodPlan(
        slot.name, labels, annotations, "Never" if policy == EXIT_CODE else policy, scheduler,
        environment(job, slot, domain) if has_variables else {}, group,
    )  # fmt: skip


def warnings(spec: ReplicaSpec, gang: GangScheduler | None) -> list[str]:
    """Fields of one type's pod template that are overwritten, or conflict with its gang's scheduler."""
    found = ["SetPodTemplateRestartPolicy"] if spec.template_restart_policy else []
    if (
        gang is not None
        and api_of(gang) != NATIVE
        and spec.scheduler_name not in ("", gang.scheduler)
    ):
        found.append("SetPodTemplateSchedulerName")
    return found


def environment(job: Job, slot: Slot, domain: str = "") -> dict[str, str]:
    """The variables by which a pod finds the others."""
    if job.kind == "TFJob":
        # A single pod has no others to find.
        return {} if job.total == 1 else {"TF_CONFIG": _tf_config(job, slot, domain)}
    return _VARIABLES[job.kind](job, slot)


def _tf_config(job: Job, slot: Slot, domain: str) -> str:
    def address(type: str, index: int) -> str:
        host = f"{replica_name(job.name, type, index)}.{job.namespace}.svc"
        port = job.spec.replicas[type].port or job.rules.port
        return f"{host}.{domain}:{port}" if domain else f"{host}:{port}"

    task = {"type": slot.type.lower(), "index": slot.index}
    found: dict[str, Any] = {
        type.lower(): [address(type, index) for index in range(spec.count)]
        for type, spec in job.types
    }
    if not job.spec.is_dynamic:
        config = {"cluster": found, "task": task, "environment": "cloud"}
        return json.dumps(config, separators=(",", ":"))
    own = address(slot.type, slot.index)
    sparse: dict[str, Any] = {"worker": {}, "ps": None}
    if slot.type == "PS":
        sparse["ps"] = [own]
    elif slot.type == "Worker":
        sparse = {"worker": {str(slot.index): own}, "ps": found.get("ps")}
    return json.dumps({"cluster": sparse, "task": task}, separators=(",", ":"))


def _pytorch(job: Job, slot: Slot) -> dict[str, str]:
    spec, found = job.spec, {"PYTHONUNBUFFERED": "1"}
    is_number = spec.processes.isascii() and spec.processes.isdigit()
    per_pod = int(spec.processes) if is_number else 1
    if "Master" in spec.replicas:
        is_master = slot.type == "Master"
        host = replica_name(job.name, "Master", 0)
        port = str(spec.replicas["Master"].port or job.rules.port)
        rank = str(slot.index if is_master else slot.index + 1)
        found |= {
            "MASTER_ADDR": host, "MASTER_PORT": port, "PET_MASTER_ADDR": host, "PET_MASTER_PORT": port,
            "WORLD_SIZE": str(job.total * per_pod), "RANK": rank, "PET_NODE_RANK": rank,
        }  # fmt: skip
    if spec.processes:
        found["PET_NPROC_PER_NODE"] = spec.processes
    elastic = spec.elastic
    if elastic is None:
        return found | {"PET_NNODES": str(job.total)}
    low = job.total if elastic.min_replicas is None else elastic.min_replicas
    high = job.total if elastic.max_replicas is None else elastic.max_replicas
    host = elastic.rendezvous_host or replica_name(job.name, "Worker", 0)
    meeting = elastic.rendezvous_port or job.rules.port
    found |= {
        "PET_RDZV_BACKEND": elastic.rendezvous_backend or "c10d",
        "PET_RDZV_ENDPOINT": f"{host}:{meeting}",
        "PET_RDZV_ID": elastic.rendezvous_id or job.name,
        "PET_NNODES": f"{low}:{high}",
    }
    if elastic.max_restarts is not None:
        found["PET_MAX_RESTARTS"] = str(elastic.max_restarts)
    return found


def _xgboost(job: Job, slot: Slot) -> dict[str, str]:
    """Ranks go on from the masters to the workers. The addresses of workers are for LightGBM."""
    masters = job.spec.replicas.get("Master", ReplicaSpec(0)).count
    host, port = _place(job, "Master")
    found = {
        "PYTHONUNBUFFERED": "0", "MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": str(job.total),
        "RANK": str(slot.index + (masters if slot.type == "Worker" else 0)),
    }  # fmt: skip
    if job.total > 1:
        workers = (replica_name(job.name, "Worker", index) for index in range(job.total - 1))
        found |= {"WORKER_PORT": _place(job, "Worker")[1], "WORKER_ADDRS": ",".join(workers)}
    return found


def _paddle(job: Job, slot: Slot) -> dict[str, str]:
    """All meet at the master, else at worker 0. Worker 0 names its own address: its service may not exist yet."""
    type = job.leader or "Worker"
    host, port = _place(job, type)
    is_meeting = slot.type == type and slot.index == 0
    found = {
        "PYTHONUNBUFFERED": "0", "PADDLE_JOB_ID": job.name, "PADDLE_NNODES": str(job.total),
        "PADDLE_MASTER": f"$({POD_IP}):{port}" if is_meeting else f"{host}:{port}",
    }  # fmt: skip
    if job.leader:
        found["PADDLE_SERVER_NUM" if slot.type == job.leader else "PADDLE_TRAINER_NUM"] = "1"
    return found


def _jax(job: Job, slot: Slot) -> dict[str, str]:
    host, port = _place(job, "Worker")
    return {
        "PYTHONUNBUFFERED": "1", "COORDINATOR_ADDRESS": host, "COORDINATOR_PORT": port,
        "NUM_PROCESSES": str(job.total), "PROCESS_ID": str(slot.index),
    }  # fmt: skip


def _place(job: Job, type: str) -> tuple[str, str]:
    """Host and port of the first replica of a type."""
    spec = job.spec.replicas.get(type)
    port = (spec.port if spec is not None else 0) or job.rules.port
    return replica_name(job.name, type, 0), str(port)


_VARIABLES = {"PyTorchJob": _pytorch, "XGBoostJob": _xgboost, "PaddleJob": _paddle, "JAXJob": _jax}

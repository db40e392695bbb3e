"""The demand of a TrainJob with its training runtime: the JobSet made by Kubeflow Trainer from both.

A TrainJob holds no template. It names a runtime, and may set the number of training nodes and the resources of each
of their containers. :func:`use_of` reads that, :func:`template_of` reads the runtime, and :func:`with_runtime` puts
both together, by the steps of Trainer: the nodes go to the training job (of MPI to the one called ``node``), the
resources to the containers called ``node``, and to ``launcher`` where it trains; every job in a step of the
TrainJob is there once.

Source: Kubeflow Trainer v2.2, ``pkg/runtime/core/trainingruntime.go``, ``plugins/{jobset,mpi,plainml}``; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.errors import DemandError
from bus.events.runtimes import RuntimeJob, RuntimeTemplate, RuntimeUse
from bus.kube.kinds import paths
from bus.kube.kinds.asking import asked
from bus.kube.kinds.paths import count, find, one
from bus.kube.kinds.shape import Ask
from bus.kube.kinds.table import JOBSET
from bus.kube.kinds.templates import template_at

STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
TRAINER = "trainer"
#: Jobs with one instance, whatever the runtime says.
STEPS = (TRAINER, "dataset-initializer", "model-initializer")
#: Names of MPI's jobs, and of the training containers.
NODE, LAUNCHER = "node", "launcher"
#: Most jobs of a runtime.
MOST_JOBS = 64
_JOBS = "spec.template.spec.replicatedJobs"


def template_of(object: Mapping[str, Any]) -> RuntimeTemplate:
    """The parts of a runtime's object. Raises DemandError."""
    jobs = tuple(_job(at, job) for at, job in find(object, f"{_JOBS}.*"))
    if len(jobs) > MOST_JOBS:
        raise DemandError(path=_JOBS, reason=f"more than {MOST_JOBS} jobs")
    policy = paths.mapping(object, "spec.mlPolicy")
    launcher = one(object, "spec.mlPolicy.mpi.runLauncherAsNode")
    return RuntimeTemplate(
        jobs,
        one(object, "spec.mlPolicy") is not None,
        count(policy, "numNodes", "spec.mlPolicy", default=1),
        policy.get("mpi") is not None,
        launcher is not None and launcher[1] is True,
    )


def _job(at: str, job: Any) -> RuntimeJob:
    labels = paths.mapping(job, "template.metadata.labels")
    written = one(job, "template.spec.template", at)
    if written is None:
        raise DemandError(path=f"{at}.template.spec.template", reason="missing")
    spec = template_at(written[1], written[0]).spec
    for number, container in enumerate((*(spec.containers or ()), *(spec.init_containers or ()))):
        if container.name not in (NODE, LAUNCHER):
            # Other names are somebody's text, and say nothing here.
            container.name = str(number)
    return RuntimeJob(
        paths.text(job, "name", at),
        msgspec.json.encode(spec).decode(),
        _step(labels, at),
        count(job, "template.spec.parallelism", at, default=1),
        count(job, "replicas", at, default=1),
        bool(labels),
    )


def _step(labels: Mapping[str, Any], at: str) -> str:
    step = labels.get(STEP_LABEL) or ""
    if type(step) is not str or len(step) > 63:
        raise DemandError(path=f"{at}.template.metadata.labels", reason="no label value")
    return step


def with_runtime(ask: Ask, template: RuntimeTemplate) -> Ask:
    """``ask`` with its runtime's content in the place of the runtime's name. Raises DemandError as :func:`asked` does."""
    use = ask.runtime
    assert use
    found = asked(JOBSET, {"spec": {"replicatedJobs": _made(template, use)}})
    is_asking = bool(ask.demand)
    return msgspec.structs.replace(
        ask,
        demand=found.demand if is_asking else {},
        pods=found.pods if is_asking else 0,
        wanted=found.demand if ask.wanted else {},
        priority_class=found.priority_class,
        unstated=found.unstated,
        claims=found.claims,
        runtime=msgspec.structs.replace(use, pods=found.pods),
    )


def as_before(ask: Ask, before: Ask) -> Ask:
    """``ask`` with the runtime content of ``before``. The runtime may have changed since: the running pods were
    made from the old one.
    """
    full = before.demand or before.wanted
    return msgspec.structs.replace(
        before,
        demand=full if ask.demand else {},
        pods=(before.runtime.pods or 0) if before.runtime and ask.demand else 0,
        wanted=full if ask.wanted else {},
        deadline_s=ask.deadline_s,
        suspended=ask.suspended,
        labels=ask.labels,
        held=ask.held,
    )


def _made(template: RuntimeTemplate, use: RuntimeUse) -> list[dict[str, Any]]:
    """The jobs of the JobSet, as it has them."""
    sizes = [_size(job, template, use) for job in template.jobs]
    training = next((n for job, n in zip(template.jobs, sizes, strict=True) if job.step == TRAINER), 0)  # fmt: skip
    if use.nodes is not None and not template.is_mpi:
        training = use.nodes
    made = []
    for job, size in zip(template.jobs, sizes, strict=True):
        pods = training if job.step == TRAINER else size
        spec = {"parallelism": pods, "completions": pods, "template": {"spec": _spec(job, template, use)}}  # fmt: skip
        jobs = 1 if job.step in STEPS else job.jobs
        made.append({"name": job.name, "replicas": jobs, "template": {"spec": spec}})
    return made


def _size(job: RuntimeJob, template: RuntimeTemplate, use: RuntimeUse) -> int:
    pods = template.nodes if job.step == TRAINER and template.has_policy else job.pods
    if template.is_mpi and job.name == NODE and use.nodes is not None:
        return max(use.nodes - 1, 1) if template.launcher_trains else use.nodes
    return pods


def _spec(job: RuntimeJob, template: RuntimeTemplate, use: RuntimeUse) -> Any:
    spec = msgspec.json.decode(job.spec)
    if use.resources and job.is_labelled:
        for container in spec.get("containers") or ():
            is_launcher = container.get("name") == LAUNCHER and template.launcher_trains
            if container.get("name") == NODE or is_launcher:
                container["resources"] = msgspec.json.decode(use.resources)
    return spec

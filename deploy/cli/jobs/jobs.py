"""``bursar jobs``: training jobs, their next steps, and the agreement with the steps of their operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US, format_stamp
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, count, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import moment, words
from deploy.errors import AbsentObjectError, SettingsError
from deploy.hints import hint
from deploy.runtime.ledgers import clusters, reading

if TYPE_CHECKING:
    from reactors.engine.replica import Replica
    from reactors.jobs.settings import JobsPolicy
    from reactors.jobs.shape import Job, SeenJob, Slot
    from reactors.jobs.state import JobsState
    from reactors.jobs.steps import TrackedJob

_LIST = (
    "namespace", "name", "kind", "state", "pods", "replaced", "due", "deadline_at", "uid", "cluster", "run_by",
)  # fmt: skip
_SHOW = (
    "name", "type", "index", "step", "phase", "restart_policy", "scheduler_name", "labels", "annotations",
    "environment",
)  # fmt: skip
#: Of a job of more pods the variables are left out: those of each name all the others.
MOST_WITH_VARIABLES = 500
_GROUP_STEPS = {"create": "create", "update": "change", "keep": "", "delete": "delete"}
_RESULTS = ("agreed", "missed", "unforeseen")
_AGREEMENT = ("cluster", "step", *_RESULTS)
_DIFFERENCES = ("at", "namespace", "job", "step", "what", "result", "cluster")


def register(app: typer.Typer) -> None:
    """Add the commands of ``jobs``."""
    command(app, "list", question=True)(list_)
    command(app, "show", question=True)(show)
    command(app, "agreement", question=True)(agreement)


def list_(asked: CommandContext, cluster: Cluster = None) -> None:
    """Training jobs: state, pods and due steps.

    RUN-BY is `bursar` where Bursar runs the job, else the manager that the job names, or the operator. DUE lists the next steps
    by the rules in force, `none`, or the reason why the job is skipped. REPLACED counts failed pods that were deleted to be
    created again. `bursar why NAMESPACE/NAME` has the decided steps.

    \b
    bursar jobs list
    bursar jobs show vision/train
    """
    with reading(asked.place) as connection:
        stands = standing(connection)
        rows = []
        for name, replica in _replicas(connection, cluster):
            view, policy = _known(replica)
            for uid in view.jobs:
                rows.append(_listed(view, uid, policy, stands.moment_s(name) * SECOND_US, name))
    rows.sort(key=lambda row: (row["namespace"], row["name"], row["cluster"]))
    answer(
        asked,
        rows,
        fields=_LIST,
        columns=_COLUMNS,
        notes=footer(stands.sequence, stands.observed_s),
    )


def show(
    asked: CommandContext,
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job: NAMESPACE/NAME, or its uid.")],
    cluster: Cluster = None,
) -> None:
    """One job, pod by pod: due steps, labels and variables.

    \b
    bursar jobs show vision/train
    bursar jobs show vision/train -o json
    """
    with reading(asked.place) as connection:
        stands = standing(connection)
        found = [
            (name, uid, *_known(replica))
            for name, replica in _replicas(connection, cluster)
            for uid, tracked in _jobs(replica)
            if job in (uid, f"{tracked.job.namespace}/{tracked.job.name}")
        ]
    if not found:
        raise AbsentObjectError(
            f"there is no training job {job[:128]!r}; `{hint('jobs list')}` names them"
        )
    if len(found) > 1:
        every = ", ".join(
            f"{view.jobs[uid].job.kind} {uid} in {name}" for name, uid, view, _ in found
        )
        raise SettingsError(
            f"several jobs have the name {job[:128]!r}, name one by its uid: {every}"
        )
    ((name, uid, view, policy),) = found
    rows = _slots(view, uid, policy, stands.moment_s(name) * SECOND_US)
    notes = [*_left_out(view.jobs[uid].job), *_autoscaler(view, uid, policy)]
    notes += footer(stands.sequence, stands.observed_s)
    answer(asked, rows, fields=_SHOW, columns=_SLOTS, notes=notes)


def agreement(
    asked: CommandContext,
    differences: Annotated[
        bool,
        typer.Option("--differences", help="The newest steps that differ, instead of the sums."),
    ] = False,
    cluster: Cluster = None,
) -> None:
    """Steps decided in shadow, compared with the operator's.

    AGREED: the cluster showed the step after its decision. MISSED: it did not within five minutes. UNFORESEEN: the cluster
    showed a step without a decision, for example while Bursar was away or held back.

    \b
    bursar jobs agreement
    bursar jobs agreement --differences
    """
    rows: list[dict[str, Any]] = []
    with reading(asked.place) as connection:
        stands = standing(connection)
        for name, replica in _replicas(connection, cluster):
            found = _known(replica)[0].agreements
            if differences:
                rows += [
                    {
                        "at": format_stamp(one.at_us), "namespace": one.namespace, "job": one.job,
                        "step": one.step, "what": one.what, "result": one.result, "cluster": name,
                    }
                    for one in reversed(found.differences)
                ]  # fmt: skip
                continue
            for step in sorted({step for step, _ in found.counts}):
                counts = {result: found.counts.get((step, result), 0) for result in _RESULTS}
                rows.append({"cluster": name, "step": step, **counts})
    notes = footer(stands.sequence, stands.observed_s)
    if differences:
        answer(asked, rows, fields=_DIFFERENCES, columns=_DIFFERING, notes=notes)
        return
    if rows:
        agreed, all_ = (
            sum(row[name] for row in rows for name in names) for names in (("agreed",), _RESULTS)
        )
        share = (
            f"{agreed:,} of {all_:,} steps, {100 * agreed / all_:.1f} %, are those of the operator"
        )
        notes = [share, *notes]
    answer(asked, rows, fields=_AGREEMENT, columns=_STEPS, notes=notes)


def _replicas(connection: sa.Connection, only: str | None) -> list[tuple[str, Replica]]:
    from reactors.catalogue import REACTORS
    from reactors.engine.snapshots import at

    def select(query: Any) -> list[Any]:
        return [tuple(row) for row in connection.execute(query)]

    return [
        (name, at(select, REACTORS, name)) for name in clusters(connection) if only in (None, name)
    ]


def _known(replica: Replica) -> tuple[JobsState, JobsPolicy]:
    from reactors.jobs import NAME
    from reactors.jobs.settings import JobsPolicy
    from reactors.jobs.state import JobsState

    view, current = replica.states[NAME], replica.policies.of(NAME)
    assert isinstance(view, JobsState)
    policy = current.policy if current is not None else JobsPolicy()
    assert isinstance(policy, JobsPolicy)
    return view, policy


def _jobs(replica: Replica) -> list[tuple[str, TrackedJob]]:
    return sorted(_known(replica)[0].jobs.items())


def _listed(
    view: JobsState, uid: str, policy: JobsPolicy, now_us: int, cluster: str
) -> dict[str, Any]:
    from reactors.jobs.decide import lone_services, needed
    from reactors.jobs.limits import deadline_left_us
    from reactors.jobs.metrics import phase, runner

    tracked: TrackedJob = view.jobs[uid]
    job, found = tracked.job, needed(view, uid, now_us, policy)
    due = []
    if found.creates:
        due.append(f"create {len(found.creates)}")
    if alone := lone_services(view, found):
        due.append(f"service {len(alone)}")
    for step, those in (("adopt", found.adopted), ("release", found.released)):
        due += [f"{step} {len(those)}"] if those else []
    reasons = [one.reason for one in found.removals]
    due += [f"delete {reasons.count(one)}: {one}" for one in dict.fromkeys(reasons)]
    due += ["delete the job: ttl_over"] if found.is_deleted else []
    left_us = None if job.status.is_finished else deadline_left_us(job, now_us)
    counts = job.status.counts.values()
    return {
        "namespace": job.namespace, "name": job.name, "kind": job.kind, "state": phase(job.status),
        "pods": f"{sum(one.active for one in counts)}/{job.total}", "replaced": tracked.replaced,
        "due": found.error or _waits(found.skipped, due),
        "deadline_at": None if left_us is None else format_stamp(now_us + left_us), "uid": uid,
        "cluster": cluster, "run_by": runner(view, tracked, policy),
    }  # fmt: skip


def _waits(skipped: str, due: list[str]) -> str:
    """The due steps, or the reason for none."""
    if skipped == "gang_waits":
        return ", ".join([skipped, *due])
    return skipped or ", ".join(due) or "none"


def _slots(view: JobsState, uid: str, policy: JobsPolicy, now_us: int) -> list[dict[str, Any]]:
    """A line for each pod that the job has or needs."""
    from reactors.jobs.decide import lone_services, needed
    from reactors.jobs.rendezvous import pod_plan
    from reactors.jobs.replicas import replica_name
    from reactors.jobs.shape import Slot
    from reactors.jobs.steps import ADOPT, GROUP, service_key

    job, seen, found = view.jobs[uid].job, view.seen(uid), needed(view, uid, now_us, policy)
    phases = {one.name: "Terminating" if one.is_deleting else one.phase for one in seen.pods}
    missing = {slot.name for slot in found.creates}
    steps = {one.pod.name: f"delete: {one.reason}" for one in found.removals}
    claims = {"adopt": found.adopted, "release": found.released}
    steps |= {one.partition(":")[2]: step for step, those in claims.items() for one in those}
    alone = {slot.name for slot in lone_services(view, found)}
    there = _by_slot(job, seen)
    slots = [
        Slot(type, index, replica_name(job.name, type, index))
        for type, spec in (() if job.is_too_large else job.types)
        for index in range(spec.count)
    ]
    planned = {slot.name for slot in slots}
    slots += [slot for slot in found.creates if slot.name not in planned]
    rows, shown = [], set[str]()
    for slot in slots:
        plan = pod_plan(job, slot, seen.gang, has_variables=job.total <= MOST_WITH_VARIABLES)
        name = there.get(slot.name) or _next(view, uid, slot)
        shown.add(name)
        step = "create" if slot.name in missing else steps.get(name, "")
        if not step and slot.name in alone:
            step = _step(view.jobs[uid], service_key(slot.name), "service")
        else:
            step = _step(view.jobs[uid], f"create/{name}", step)
        rows.append(
            {
                "name": name, "type": slot.type, "index": slot.index, "step": step,
                "phase": phases.get(name, ""), "restart_policy": plan.restart_policy,
                "scheduler_name": plan.scheduler_name, "labels": plan.labels,
                "annotations": plan.annotations, "environment": plan.environment,
            }
        )  # fmt: skip
    others = [one for one in seen.pods if one.owner == "self" and one.name not in shown]
    for pod in sorted(others, key=lambda one: one.name):
        rows.append(
            _beside(pod.name, pod.type, pod.index, steps.get(pod.name, ""), phases[pod.name])
        )
    tracked = view.jobs[uid]
    if view.mode == "on" and found.group is not None and seen.gang is not None:
        step = _step(tracked, GROUP, _GROUP_STEPS[found.group.action])
        phase = seen.gang.group.phase if seen.gang.group is not None else ""
        rows.append(_beside(f"podgroup/{job.name}", "", "", step, phase))
    refused = {one.name: key for key, one in tracked.steps.items() if one.step == ADOPT}
    for name, key in sorted(refused.items()):
        if tracked.steps[key].message and name not in shown:
            rows.append(_beside(name, "", "", _step(tracked, key, "adopt"), ""))
    return rows


def _beside(name: str, type: str, index: str, step: str, phase: str) -> dict[str, Any]:
    """A line for a pod or service outside the job's slots."""
    return {
        "name": name, "type": type, "index": index, "step": step, "phase": phase, "restart_policy": "",
        "scheduler_name": "", "labels": {}, "annotations": {}, "environment": {},
    }  # fmt: skip


def _by_slot(job: Job, seen: SeenJob) -> dict[str, str]:
    """The pod in each slot, including one that the job takes, by the slot's name; of several the latest attempt."""
    from reactors.jobs.replicas import replica_name

    pods = sorted((one for one in seen.pods if one.is_selected), key=lambda one: one.attempt)
    return {replica_name(job.name, one.type, one.index): one.name for one in pods}


def _next(view: JobsState, uid: str, slot: Slot) -> str:
    """The name of the next pod in a slot."""
    from reactors.jobs.decide import next_attempt

    return next_attempt(view, view.jobs[uid], slot)[0] if view.mode == "on" else slot.name


def _step(tracked: TrackedJob, key: str, step: str) -> str:
    """A step, and the message of its last refusal by the API server."""
    refused = tracked.steps.get(key)
    return f"{step}, refused: {refused.message}" if refused and refused.message else step


def _left_out(job: Job) -> list[str]:
    """The lines below the table of a large job."""

    from reactors.jobs.shape import MOST_PODS

    if job.is_too_large:
        text = f"the job asks for {job.total:,} pods, more than {MOST_PODS:,}: it gets none"
        return [f"{text}, and only pods that exist are shown"]
    return (
        [f"variables are left out above {MOST_WITH_VARIABLES:,} pods"]
        if job.total > MOST_WITH_VARIABLES
        else []
    )


def _autoscaler(view: JobsState, uid: str, policy: JobsPolicy) -> list[str]:
    """The autoscaler that the operator would make for a job under Bursar."""
    from reactors.jobs.metrics import runner

    job = view.jobs[uid].job
    elastic = job.spec.elastic
    if job.kind != "PyTorchJob" or elastic is None or not elastic.has_metrics:
        return []
    if runner(view, view.jobs[uid], policy) != "bursar":
        return []
    least, most = elastic.min_replicas, elastic.max_replicas
    workers = job.spec.replicas.get("Worker")
    least, most = (
        next((one for one in bounds if one is not None), workers.count if workers else 0)
        for bounds in ((least, most), (most, least))
    )
    return [
        "Bursar makes no HorizontalPodAutoscaler for elasticPolicy.metrics:"
        f" create one that scales {job.kind} {job.name}, minReplicas {least}, maxReplicas {most}"
    ]


def _variables(row: Row) -> Cell | None:
    return words(" ".join(f"{name}={text}" for name, text in row["environment"].items()))


_COLUMNS = (
    Column("JOB", lambda row: f"{row['namespace']}/{row['name']}"),
    field("KIND"),
    field("STATE"),
    field("PODS"),
    count("REPLACED", "replaced"),
    field("DUE", show=words),
    field("RUN-BY", drop=2),
    field("DEADLINE", "deadline_at", show=moment, drop=1),
    field("UID", wide=True),
    field("CLUSTER", wide=True),
)
_SLOTS = (
    field("POD", "name"),
    field("PHASE"),
    field("STEP", show=words),
    field("RESTARTS", "restart_policy"),
    field("SCHEDULER", "scheduler_name", wide=True),
    Column("VARIABLES", _variables, drop=1),
)
_STEPS = (
    field("CLUSTER", wide=True),
    field("STEP"),
    *(count(name.upper(), name) for name in _RESULTS),
)
_DIFFERING = (
    field("AT", show=moment),
    Column("JOB", lambda row: f"{row['namespace']}/{row['job']}"),
    field("STEP"),
    field("WHAT", show=words),
    field("RESULT"),
    field("CLUSTER", wide=True),
)

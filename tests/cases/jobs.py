"""Runs `tfjob_reconcile` cases: one pass of the training operator over a TFJob, by the product's pass under the operator's rules.

Of what happens after a pass the cases say how the API server answers a creation; those answers are played here.
"""

import json

import msgspec
import pytest

from bus.amounts import parse_quantity
from bus.clock import SECOND_US, format_stamp, parse_stamp
from bus.events.workloads import (
    GangSpec,
    ReplicaCounts,
    ReplicaSpec,
    TrainingSpec,
    WorkloadCondition,
    by_replica_type,
)
from reactors.jobs.conditions import with_condition
from reactors.jobs.ownership import claim
from reactors.jobs.passes import reconciled
from reactors.jobs.rendezvous import environment, pod_plan
from reactors.jobs.replicas import evaluated, is_retryable, replica_name, slots
from reactors.jobs.shape import (
    GangScheduler,
    Job,
    JobExpectations,
    JobStatus,
    Rules,
    SeenJob,
    SeenPod,
    SeenPodGroup,
    SeenService,
    Slot,
)
from reactors.jobs.success import is_worker0_done

V1 = Rules(is_v1=True)
MILLI = 1_000_000


def check(case):
    """The rule of the case gives what it says; a rule that has no runner here fails by its name."""
    runner = RULES.get(case["rule"])
    if runner is None:
        known = ", ".join(sorted(RULES))
        pytest.fail(
            f"no runner for the rule {case['rule']!r}; there are runners for {known}", pytrace=False
        )
    runner(case["given"], case["expect"])


def _reconcile(given, expect):
    job, seen, now_us = _job(given["job"]), _seen(given), parse_stamp(given["now"])
    one = reconciled(job, seen, now_us, V1)
    made = _answered(one, given["pod_create_error"])
    told = {
        "creates": sorted(
            (_create(job, seen, slot, given["custom_cluster_domain"]) for slot in made.creates),
            key=lambda pod: pod["name"],
        ),
        "deletes": sorted(one.pod.name for one in made.removals),
        "service_creates": sorted(slot.name for slot in made.service_creates),
        "service_deletes": sorted(made.service_removals),
        "adopted": made.adopted,
        # What deletes a job leaves no status to look at.
        "conditions": [] if one.is_deleted else _conditions(made.status.conditions),
        "replica_counts": {name: _counts(one) for name, one in made.status.counts.items()},
        "start_time": _stamp(made.status.start_us),
        "completion_time": _stamp(made.status.completion_us),
        "status_writes": int(made.status != job.status or bool(made.group and made.group.is_held)),
        "job_deleted": made.is_deleted,
        "expectations_after": _expected(given, one, made),
        "error": made.error,
        "requeue_after_seconds": _again(made),
        "delayed_requeues": [
            f"{job.namespace}/{job.name} +{timer.after_us // SECOND_US}s" for timer in made.timers
        ],
        "pod_group": _group(made.group),
        "events": sorted(made.events),
    }

    assert {name: told[name] for name in expect} == expect


def _answered(one, error):
    """A pass whose creations are answered: one that is refused ends it, and one that timed out may have been done."""
    if error in ("", "timeout") or not one.creates:
        return one
    return msgspec.structs.replace(
        one, creates=one.creates[:1], service_creates=[], removals=[], service_removals=[], error=error,
        status=JobStatus((WorkloadCondition("Created", "True", "TFJobCreated"),)), events=[],
    )  # fmt: skip


def _job(given):
    return Job(
        uid="job-uid", kind="TFJob", namespace=given["namespace"], name=given["name"],
        is_deleting=given["deleting"], spec=_spec(given),
        status=JobStatus(
            tuple(WorkloadCondition(*one) for one in given["conditions"] or ()),
            {type: ReplicaCounts(**one) for type, one in (given["replica_counts"] or {}).items()},
            _us(given["start_time"]), _us(given["completion_time"]),
        ),
    )  # fmt: skip


def _spec(given):
    scheduling = given["scheduling"]
    gang = scheduling and GangSpec(
        scheduling["min_available"], scheduling["queue"], _milli(scheduling["min_resources"]),
        scheduling["priority_class"], scheduling["schedule_timeout_seconds"],
    )  # fmt: skip
    return TrainingSpec(
        _by_type({type: _replicas(one) for type, one in given["replicas"].items()}),
        clean_pod_policy=given["clean_pod_policy"] or "", ttl_s=given["ttl_seconds_after_finished"],
        deadline_s=given["active_deadline_seconds"], backoff_limit=given["backoff_limit"],
        suspend=bool(given["suspend"]), success_policy=given["success_policy"] or "",
        is_dynamic=given["dynamic_workers"], managed_by=given["managed_by"], gang=gang or None,
    )  # fmt: skip


def _by_type(replicas):
    return by_replica_type("TFJob", replicas)


def _replicas(given):
    return ReplicaSpec(
        1 if given["count"] is None else given["count"], given.get("restart_policy") or "",
        given.get("template_restart_policy") or "", given.get("scheduler_name") or "",
        given.get("priority_class") or "",
        requests=_milli(given.get("requests") or given.get("limits")) or {},
    )  # fmt: skip


def _seen(given):
    outstanding = {
        key: JobExpectations(*one) for key, one in (given["expectations_before"] or {}).items()
    }
    return SeenJob(
        tuple(map(_pod, given["pods"])), tuple(map(_service, given["services"])), outstanding,
        _gang(given["gang"]),
    )  # fmt: skip


def _pod(given):
    is_trainer = given.get("container") in (None, "", "tensorflow")
    return SeenPod(
        given["name"], given["name"], given["type"], given["index"], given["phase"], given["deleting"],
        given["restarts"], given["exit_code"] if is_trainer else None, given["owner"],
        not given.get("job_label"),
    )  # fmt: skip


def _service(given):
    return SeenService(
        given["name"], given["type"], given["index"], given["deleting"], given["owner"],
        not given.get("job_label"),
    )  # fmt: skip


def _gang(given):
    if given is None:
        return None
    group = given["group"] and SeenPodGroup(given["group"]["phase"], given["group"]["queue"])
    return GangScheduler(given["scheduler"], group, given["priority_classes"])


def _create(job, seen, slot, domain):
    plan = pod_plan(job, slot, seen.gang, domain)
    found = {
        "name": plan.name, "labels": plan.labels, "restart_policy": plan.restart_policy,
        "scheduler_name": plan.scheduler_name, "annotations": plan.annotations,
        "owner": f"{job.kind}/{job.name}",
    }  # fmt: skip
    config = plan.environment.get("TF_CONFIG")
    return found | ({"tf_config": json.loads(config)} if config else {})


def _expected(given, one, made):
    """What the operator would wait for after the pass: nothing but what replicas asked for."""
    before = {key: list(counts) for key, counts in (given["expectations_before"] or {}).items()}
    if one.skipped:
        return before
    job = given["job"]["replicas"]
    found = {f"{type.lower()}/{part}": [0, 0] for type in job for part in ("pods", "services")}
    is_refused = given["pod_create_error"] not in ("", "timeout")
    for slot in () if is_refused else made.creates:
        found[f"{slot.type.lower()}/pods"][0] += 1
    for slot in made.service_creates:
        found[f"{slot.type.lower()}/services"][0] += 1
    for removal in made.removals:
        if removal.reason in ("failed_retryable", "out_of_range"):
            found[f"{removal.pod.type}/pods"][1] += 1
    return before | found


def _again(made):
    if made.again_us is None:
        return 0
    return made.again_us / SECOND_US if made.again_us > 0 else -1


def _group(step):
    if step is None:
        return None
    return {"actions": [step.action], "spec": step.spec} | (
        {"delayed": True} if step.is_held else {}
    )


def _conditions(found):
    return [[one.type, one.status, one.reason] for one in found]


def _counts(one):
    return {"active": one.active, "succeeded": one.succeeded, "failed": one.failed}


def _milli(given):
    return given and {name: parse_quantity(text) // MILLI for name, text in given.items()}


def _us(stamp):
    return None if stamp is None else parse_stamp(stamp)


def _stamp(us):
    return None if us is None else format_stamp(us)


def _claim(given, expect):
    one = given["object"]
    action = claim(
        one["owner"], is_selected=one["selector_matches"], is_deleting=one["deleting"],
        is_job_deleting=given["controller_deleting"],
    )  # fmt: skip
    told = {"claimed": action == "ours", "action": "none", "error": False}
    if action == "adopt" and not given["recheck_ok"]:
        told["error"] = True
    elif action in ("adopt", "release"):
        forgiven = {"ok", "not_found"} | ({"invalid"} if action == "release" else set())
        told = {
            "claimed": action == "adopt" and given["patch"] == "ok", "action": action,
            "error": given["patch"] not in forgiven,
        }  # fmt: skip

    assert told == expect


def _slot_count(given, expect):
    assert slots(given["indices"], given["replicas"], V1) == expect["slots"]


def _retryable(given, expect):
    assert is_retryable(given["exit_code"]) == expect["retryable"]


def _name(given, expect):
    assert replica_name(given["job"], given["type"], given["index"]) == expect["name"]


def _other_scheduler(given, expect):
    names = given["scheduler_names"]
    job = _of({f"T{n}": ReplicaSpec(scheduler_name=name) for n, name in enumerate(names)})
    gang = GangScheduler(given["gang_scheduler"])
    plans = [pod_plan(job, Slot(type, 0, "p"), gang) for type in job.spec.replicas]

    assert any(one.scheduler_name != gang.scheduler for one in plans) == expect["other"]


def _distributed(given, expect):
    job = _of(_by_type({type: ReplicaSpec(count) for type, count in given["replicas"].items()}))
    slot = Slot(next(iter(job.spec.replicas)), 0, "p")

    assert ("TF_CONFIG" in environment(job, slot)) == expect["distributed"]


def _worker0(given, expect):
    workers = [
        SeenPod(f"w{n}", index=str(n), phase=one["phase"], exit_code=one["exit_code"])
        for n, one in enumerate(given["workers"])
    ]

    known = workers if "Worker" in _by_type(dict.fromkeys(given["replicas"], True)) else None
    assert is_worker0_done(known) == expect["done"]


def _sequence(given, expect):
    found, after = (), []
    for type, status in given["set"]:
        found = with_condition(found, WorkloadCondition(type, status, f"TFJob{type}"))
        after.append([[one.type, one.status] for one in found])

    assert after == expect["after_each"]


def _replica_counts(given, expect):
    """Pods of one type to their counts, as kubeflow.md B.3 has them. A pod without an index is in a slot of its own.

    ``given.pods`` are those of `reconcile`, of which phase and deletion count, or phases alone; ``expect`` has the counts by
    their names, by themselves or below the type, as `reconcile` expects them.
    """
    pods = [{"phase": one} if isinstance(one, str) else one for one in given["pods"]]
    type = given.get("type") or "Worker"
    # No pod of it is replaced: what is counted does not depend on that.
    spec = ReplicaSpec(len(pods), "Never")
    seen = [
        SeenPod(
            f"p{n}", f"p{n}", type.lower(), str(one.get("index") or n), one["phase"],
            bool(one.get("deleting")),
        )
        for n, one in enumerate(pods)
    ]  # fmt: skip
    told = _counts(evaluated(_of({type: spec}), type, spec, seen, V1).counts)
    wanted = expect.get("replica_counts") or expect.get("counts") or expect
    wanted = wanted.get(type, wanted)

    assert {name: told[name] for name in wanted} == wanted


def _of(replicas):
    return Job("job-uid", "TFJob", "ns", "job", TrainingSpec(replicas))


RULES = {
    "reconcile": _reconcile,
    "claim": _claim,
    "slot_count": _slot_count,
    "retryable_exit_code": _retryable,
    "replica_name": _name,
    "other_scheduler_named": _other_scheduler,
    "is_distributed": _distributed,
    "worker0_done": _worker0,
    "condition_sequence": _sequence,
    "replica_counts": _replica_counts,
}

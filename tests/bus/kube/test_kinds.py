"""What workloads ask for: each kind's pods and templates, and what waits."""

import pytest

from bus.errors import DemandError
from bus.events.pods import Owner
from bus.kube import kinds
from bus.kube.kinds import table, templates
from bus.kube.kinds.asking import MOST_SETS
from bus.kube.kinds.shape import Ask, Scale, ScaleTarget
from tests.bus.containers import resources
from tests.bus.kube.workloads import (
    ROLES,
    both,
    deployment,
    of_pod,
    refused,
    template,
    with_values,
)

# --- kinds: how many pods of which template --------------------------------------------------------

RAY = {
    "headGroupSpec": {"template": template("1")},
    "workerGroupSpecs": [
        {"replicas": 3, "numOfHosts": 2, "template": template("2")},
        {"replicas": 9, "maxReplicas": 4, "template": template("8")},
        {"minReplicas": 5, "template": template("16")},
        {"template": template("32")},
    ],
}
JOB = {"parallelism": 5, "completions": 3, "template": template()}
JOBS = [
    {"name": "a", "replicas": 2, "template": {"spec": JOB}},
    {"name": "b", "template": {"spec": {"template": template("7")}}},
]

SIZES = {
    "a Deployment": (table.DEPLOYMENT, {"replicas": 3, "template": template()}, 3, 3),
    "a StatefulSet": (table.STATEFULSET, {"replicas": 2, "template": template("2")}, 2, 4),
    "a ReplicaSet": (table.REPLICASET, {"replicas": 2, "template": template()}, 2, 2),
    "a Rollout": (table.ROLLOUT, {"replicas": 4, "template": template()}, 4, 4),
    "a Job runs no more pods at once than it needs": (table.JOB, JOB, 3, 3),
    "a Job without completions runs its parallelism": (
        table.JOB, {"parallelism": 5, "template": template()}, 5, 5),
    "a Job that says nothing runs one pod": (table.JOB, {"template": template()}, 1, 1),
    "a CronJob is one run, also where runs may overlap": (
        table.CRONJOB, {"concurrencyPolicy": "Allow", "jobTemplate": {"spec": JOB}}, 3, 3),
    "a TFJob is the sum of its replica types": (table.TFJOB, {"tfReplicaSpecs": ROLES}, 3, 6),
    "a PyTorchJob": (table.PYTORCHJOB, {"pytorchReplicaSpecs": ROLES}, 3, 6),
    "an XGBoostJob": (table.XGBOOSTJOB, {"xgbReplicaSpecs": ROLES}, 3, 6),
    "a PaddleJob": (table.PADDLEJOB, {"paddleReplicaSpecs": ROLES}, 3, 6),
    "a JAXJob": (table.JAXJOB, {"jaxReplicaSpecs": ROLES}, 3, 6),
    # SetDefaults_MPIJob: one launcher, and no workers where no number of them stands.
    "an MPIJob is its launcher and its workers": (
        table.MPIJOB,
        {"mpiReplicaSpecs": {"Launcher": ROLES["B"], "Worker": ROLES["A"], "worker": ROLES["A"]}}, 3, 6),
    "an MPIJob without a number of workers has none": (
        table.MPIJOB, {"mpiReplicaSpecs": {"Launcher": ROLES["B"], "Worker": ROLES["B"]}}, 1, 4),
    "a Notebook is one pod": (table.NOTEBOOK, {"template": template("2")}, 1, 2),
    "a JobSet is its jobs, each as often as it is replicated": (
        table.JOBSET, {"replicatedJobs": JOBS}, 7, 13),
    "a plain Pod": (table.POD, template("2")["spec"], 1, 2),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "pods", "cores"), SIZES.values(), ids=SIZES)
def test_what_a_kind_asks_for(kind, spec, pods, cores):
    ask = kinds.asked(kind, {"metadata": {}, "spec": spec})

    assert (pods, both(cpu=1000 * cores)) == (ask.pods, ask.demand)


# --- kinds: what their controllers can still make --------------------------------------------------


def demand(cpu, memory=0, limits=None):
    """Milli-cores and MiB that are requested, and those of the limits where these differ."""
    found = {}
    for part, (cores, mib) in {
        "requests": (cpu, memory),
        "limits": limits or (cpu, memory),
    }.items():
        found |= {f"{part}.cpu": cores, f"{part}.memory": mib * 2**20}
    return {key: amount for key, amount in found.items() if amount}


SIX = {"parallelism": 6, "completions": 6, "template": template()}
INDEXED = {**SIX, "completionMode": "Indexed"}
PER_INDEX = {**INDEXED, "backoffLimitPerIndex": 1}
TWO_JOBS = {
    "spec": {"replicatedJobs": JOBS},
    "status": {
        "replicatedJobsStatus": [{"name": "a", "succeeded": 1}, {"name": "c", "succeeded": 9}]
    },
}
#: Statuses of a JobSet's Jobs beyond those that it can have: another one's, and its own behind them.
MANY = [{"name": f"x{n}"} for n in range(MOST_SETS)] + [{"name": "a", "succeeded": 1}]
ALONE = {"headGroupSpec": {"template": template("10")}, "workerGroupSpecs": []}
SCALED = {**ALONE, "enableInTreeAutoscaling": True}
OPTIONS = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}}
GROUP = {"replicas": 2, "minReplicas": 2, "maxReplicas": 4, "template": template("4")}
SELECTED = {"clusterSelector": {"ray.io/cluster": "x"}}
WORKERS = 15 * 256
#: Kind, object, pods and demand. Sources: ``pkg/controller/job`` of Kubernetes v1.36.3, KubeRay v1.7.0, JobSet's controller.
CAN_MAKE = {
    # manageJob: wantActive; kueue#78, kueue#3141.
    "a Job in its tail": (table.JOB, {"spec": SIX, "status": {"succeeded": 5}}, 1, demand(1000)),
    "a Job whose tail is longer than its parallelism": (
        table.JOB, {"spec": {**SIX, "parallelism": 2}, "status": {"succeeded": 4}}, 2, demand(2000)),
    "a Job that has succeeded more often than it is asked now": (
        table.JOB, {"spec": SIX, "status": {"succeeded": 7}}, 0, {}),
    "a Job without completions before its first success": (
        table.JOB, {"spec": {"parallelism": 5, "template": template()}, "status": {"active": 3}}, 5, demand(5000)),
    "a Job without completions after its first success": (
        table.JOB,
        {"spec": {"parallelism": 5, "template": template()}, "status": {"active": 3, "succeeded": 1}}, 3, demand(3000)),
    # calculateSucceededIndexes: of an indexed Job, status.succeeded decides nothing.
    "an indexed Job by its indexes": (
        table.JOB, {"spec": INDEXED, "status": {"completedIndexes": "0,2-4", "succeeded": 6}}, 2, demand(2000)),
    "indexes that are none, twice there, or beyond the completions": (
        table.JOB,
        {"spec": INDEXED, "status": {"completedIndexes": "x,,1-,-2,3-1,0-1,1,5-900,7"}}, 3, demand(3000)),
    # firstPendingIndexes.
    "failed indexes under a limit per index": (
        table.JOB,
        {"spec": PER_INDEX, "status": {"completedIndexes": "0-2", "failedIndexes": "2,4"}}, 2, demand(2000)),
    "failed indexes without one": (
        table.JOB, {"spec": INDEXED, "status": {"failedIndexes": "0-4"}}, 6, demand(6000)),
    # syncJob: finishedCondition.
    "a Job that met its success policy": (
        table.JOB,
        {"spec": SIX, "status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}}, 0, {}),
    "a Job that is about to fail": (
        table.JOB, {"spec": SIX, "status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}}, 0, {}),
    "a CronJob whose Jobs are made suspended": (
        table.CRONJOB, {"spec": {"jobTemplate": {"spec": {**JOB, "suspend": True}}}}, 0, {}),
    "Jobs of a JobSet that succeeded": (table.JOBSET, TWO_JOBS, 4, demand(10_000)),
    "Jobs of a JobSet that may restart": (
        table.JOBSET, {**TWO_JOBS, "spec": {**TWO_JOBS["spec"], "failurePolicy": {"maxRestarts": 1}}}, 7, demand(13_000)),
    "Jobs of a JobSet whose status names too many": (
        table.JOBSET, {**TWO_JOBS, "status": {"replicatedJobsStatus": MANY}}, 7, demand(13_000)),
    # GetWorkerGroupDesiredReplicas, DefaultWorkerPodTemplate (wait-gcs-ready); kuberay#2728.
    "a RayCluster is its head and its groups within their bounds": (
        table.RAYCLUSTER, {"spec": RAY}, 16, demand(125_000, WORKERS)),
    "a suspended group of workers": (
        table.RAYCLUSTER, {"spec": {**ALONE, "workerGroupSpecs": [{**GROUP, "suspend": True}]}}, 1, demand(10_000)),
    "a worker that is smaller than its wait for the head": (
        table.RAYCLUSTER, {"spec": {**ALONE, "workerGroupSpecs": [{"replicas": 1, "template": template("100m")}]}},
        2, demand(10_200, 256)),
    # BuildAutoscalerContainer, mergeAutoscalerOverrides; kueue#12405.
    "the autoscaler in the head": (table.RAYCLUSTER, {"spec": SCALED}, 1, demand(10_500, 512)),
    "the autoscaler as its user wrote it": (
        table.RAYCLUSTER, {"spec": {**SCALED, "autoscalerOptions": OPTIONS}}, 1,
        demand(11_000, 1024, (12_000, 1024))),
    "the options of an autoscaler that is off": (
        table.RAYCLUSTER, {"spec": {**ALONE, "autoscalerOptions": OPTIONS}}, 1, demand(10_000)),
    # BuildCollectorContainer.
    "the collector of logs": (
        table.RAYCLUSTER, {"spec": {**ALONE, "historyServerOptions": {"collectorOptions": {}}}}, 1,
        demand(10_050, 64, (10_200, 256))),
    # GetSubmitterTemplate, GetDefaultSubmitterContainer.
    "a RayJob with the submitter that it describes": (
        table.RAYJOB, {"spec": {"rayClusterSpec": RAY, "submitterPodTemplate": template("3")}}, 17, demand(128_000, WORKERS)),
    "a RayJob with KubeRay's submitter": (
        table.RAYJOB, {"spec": {"rayClusterSpec": ALONE}}, 2, demand(10_500, 200, (11_000, 1024))),
    "a RayJob on a cluster of others is its submitter": (
        table.RAYJOB, {"spec": {**SELECTED, "submitterPodTemplate": template("3")}}, 1, demand(3000)),
    "a RayJob that is submitted by HTTP": (
        table.RAYJOB,
        {"spec": {"rayClusterSpec": ALONE, "submissionMode": "HTTPMode", "submitterPodTemplate": template("3")}},
        1, demand(10_000)),
    "a RayJob that its user submits": (
        table.RAYJOB, {"spec": {"rayClusterSpec": ALONE, "submissionMode": "InteractiveMode"}}, 1, demand(10_000)),
    "a RayJob that the head submits": (
        table.RAYJOB, {"spec": {"rayClusterSpec": SCALED, "submissionMode": "SidecarMode"}}, 1,
        demand(11_000, 712, (11_500, 1536))),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "object", "pods", "amounts"), CAN_MAKE.values(), ids=CAN_MAKE)
def test_a_kind_asks_for_what_its_controller_can_still_make(kind, object, pods, amounts):
    ask = kinds.asked(kind, object)

    assert (pods, amounts) == (ask.pods, ask.demand)


MANAGED = {
    "a Job": (table.JOB, SIX, "managedBy"),
    "a CronJob": (table.CRONJOB, {"jobTemplate": {"spec": SIX}}, "jobTemplate.spec.managedBy"),
    "a TFJob": (table.TFJOB, {"tfReplicaSpecs": ROLES, "runPolicy": {}}, "runPolicy.managedBy"),
    "a RayCluster": (table.RAYCLUSTER, RAY, "managedBy"),
    "a RayJob": (table.RAYJOB, {"rayClusterSpec": RAY}, "managedBy"),
    "a JobSet": (table.JOBSET, {"replicatedJobs": JOBS}, "managedBy"),
}


@pytest.mark.parametrize(("kind", "spec", "path"), MANAGED.values(), ids=MANAGED)
def test_what_another_controller_manages_asks_for_nothing_here(kind, spec, path):
    """``managedByExternalController`` of each operator: it does nothing for such an object."""
    here = [
        kinds.asked(kind, {"spec": with_values(path, name, spec)})
        for name in (None, *kind.managers)
    ]
    away = kinds.asked(kind, {"spec": with_values(path, "kueue.x-k8s.io/multikueue", spec)})

    assert all(one == here[0] and one.demand and not one.managed_by for one in here)
    assert ({}, 0, {}, True) == (away.demand, away.pods, away.wanted, away.suspended)
    assert "kueue.x-k8s.io/multikueue" == away.managed_by


def test_containers_that_kuberay_adds_need_no_limits_by_their_user():
    """Whoever cannot write a limit is not asked for it; what a user writes in the place of KubeRay's is."""
    limited = {
        "spec": {
            "containers": [
                resources({"cpu": "1"}, {"cpu": "1", "memory": "1", "ephemeral-storage": "1"})
            ]
        }
    }
    spec = {"headGroupSpec": {"template": limited}, "enableInTreeAutoscaling": True}
    written = {**spec, "autoscalerOptions": {"resources": {"limits": {"cpu": "1"}}}}

    assert {} == kinds.asked(table.RAYCLUSTER, {"spec": spec}).unstated
    assert ("autoscaler",) == kinds.asked(table.RAYCLUSTER, {"spec": written}).unstated[
        "limits.memory"
    ]


def test_a_daemon_set_asks_for_nothing_whatever_its_status_says():
    """Its selector and its nodes change without a request for more: each of its pods is asked for."""
    spec = {"template": template("2")}
    new = kinds.asked(table.DAEMONSET, {"metadata": {}, "spec": spec})
    running = {"metadata": {}, "spec": spec, "status": {"desiredNumberScheduled": 3}}

    assert (new.pods, new.demand) == (0, {})
    assert kinds.asked(table.DAEMONSET, running) == new
    assert kinds.scaled(new, 3).demand == both(cpu=6000)


def test_every_kind_is_tested_and_found_by_its_names():
    # A TrainJob asks for what its runtime says: tests/bus/kube/test_runtimes.py.
    cases = (*SIZES.values(), *CAN_MAKE.values())
    tested = {kind.kind for kind, *_ in cases} | {"DaemonSet", "TrainJob"}
    assert tested == {kind.kind for kind in kinds.GOVERNED}
    for kind in kinds.GOVERNED:
        assert kind is kinds.governed(kind.group, kind.kind)
        assert {kind} == {kinds.served(kind.group, v, kind.resource) for v in kind.versions}
    assert kinds.governed("apps", "Job") is kinds.served("apps", "v2", "deployments") is None


RUN = {"jobTemplate": {"spec": JOB}, "suspend": True}
ENDED_RAY = {"rayClusterSpec": RAY, "shutdownAfterJobFinishes": True}

RESTING = {
    "a suspended Job": (table.JOB, {"spec": {**JOB, "suspend": True}}, True),
    "a Job that is not suspended": (table.JOB, {"spec": {**JOB, "suspend": False}}, False),
    "a Job that is complete": (
        table.JOB,
        {"spec": JOB, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}, True),
    "a Job that is not complete yet": (
        table.JOB,
        {"spec": JOB, "status": {"conditions": [{"type": "Complete", "status": "False"}]}}, False),
    "a suspended CronJob": (table.CRONJOB, {"spec": RUN, "status": {}}, True),
    "a suspended CronJob with a run": (
        table.CRONJOB, {"spec": RUN, "status": {"active": [{}]}}, False),
    "a suspended TFJob": (
        table.TFJOB, {"spec": {"tfReplicaSpecs": ROLES, "runPolicy": {"suspend": True}}}, True),
    "a Notebook with the stop annotation": (
        table.NOTEBOOK,
        {"metadata": {"annotations": {"kubeflow-resource-stopped": ""}},
         "spec": {"template": template()}}, True),
    "a Pod that has ended": (
        table.POD, {"spec": template()["spec"], "status": {"phase": "Failed"}}, True),
    "a RayJob that has ended and leaves nothing": (
        table.RAYJOB, {"spec": ENDED_RAY, "status": {"jobDeploymentStatus": "Complete"}}, True),
    # Its cluster counts below it, as long as there is one.
    "a RayJob that has ended and keeps its cluster": (
        table.RAYJOB,
        {"spec": {"rayClusterSpec": RAY}, "status": {"jobDeploymentStatus": "Complete"}}, True),
    "a RayJob that KubeRay refuses": (
        table.RAYJOB,
        {"spec": {"rayClusterSpec": RAY}, "status": {"jobDeploymentStatus": "ValidationFailed"}}, True),
    "a RayJob that is tried again": (
        table.RAYJOB,
        {"spec": {"rayClusterSpec": RAY}, "status": {"jobDeploymentStatus": "Retrying"}}, False),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "object", "rests"), RESTING.values(), ids=RESTING)
def test_what_is_suspended_stopped_or_ended_asks_for_nothing(kind, object, rests):
    ask = kinds.asked(kind, object)

    assert (rests, not rests, not rests) == (ask.suspended, bool(ask.demand), bool(ask.pods))


DEADLINES = [
    (table.JOB, {**JOB, "activeDeadlineSeconds": 60}, 60),
    (table.CRONJOB, {"jobTemplate": {"spec": {**JOB, "activeDeadlineSeconds": 60}}}, 60),
    (table.TFJOB, {"tfReplicaSpecs": ROLES, "runPolicy": {"activeDeadlineSeconds": 9}}, 9),
    (table.RAYJOB, {"rayClusterSpec": RAY, "activeDeadlineSeconds": 8}, 8),
    (table.POD, {**template()["spec"], "activeDeadlineSeconds": 7}, 7),
    (table.JOB, JOB, None),
    (table.DEPLOYMENT, {"template": template()}, None),
]


@pytest.mark.parametrize(("kind", "spec", "seconds"), DEADLINES)
def test_the_deadline_is_the_controllers(kind, spec, seconds):
    assert seconds == kinds.asked(kind, {"spec": spec}).deadline_s


# --- labels, priority, scale -----------------------------------------------------------------------

QUOTA, TYPE = kinds.QUOTA_LABELS[0], kinds.QUOTA_LABELS[1]


def test_the_labels_are_the_workloads_own_else_those_of_its_template():
    workload = deployment(labels={QUOTA: "own", "app": "web", TYPE: ""})
    workload["spec"]["template"] = template(labels={QUOTA: "other", TYPE: "A4", "team": "x"})

    assert {QUOTA: "own", TYPE: "A4"} == kinds.asked(table.DEPLOYMENT, workload).labels


def test_templates_that_name_different_quotas_are_refused():
    roles = {name: {"template": template(labels={QUOTA: name})} for name in "ab"}
    job = {"metadata": {}, "spec": {"tfReplicaSpecs": roles}}
    reason = "the pod templates name different values"

    assert (f"metadata.labels[{QUOTA}]", reason) == refused(table.TFJOB, job)
    assert kinds.asked(table.TFJOB, {**job, "metadata": {"labels": {QUOTA: "c"}}}).labels


@pytest.mark.parametrize("labels", [{QUOTA: "x" * 64}, {QUOTA: ["x"]}, ["x"]])
def test_labels_that_are_none_are_refused(labels):
    assert refused(table.DEPLOYMENT, deployment(labels=labels))[0].startswith("metadata.labels")


def test_the_priority_class_is_the_first_that_a_set_names():
    roles = {"a": {"template": template()}, "b": {"template": template(priorityClassName="high")}}

    assert "high" == kinds.asked(table.TFJOB, {"spec": {"tfReplicaSpecs": roles}}).priority_class


def test_a_scale_is_charged_without_the_object():
    ask = kinds.asked(table.DEPLOYMENT, deployment(0, "1500m"))
    scale = kinds.scale_of({"metadata": {"uid": "u"}, "spec": {"replicas": 3}})

    assert (Scale("u", 3), both(cpu=1500)) == (scale, ask.per_replica)
    assert kinds.asked(table.DEPLOYMENT, deployment(3, "1500m")) == kinds.scaled(ask, 3)
    assert ask == kinds.scaled(kinds.scaled(ask, 3), 0)


@pytest.mark.parametrize(
    ("kind", "specs"),
    [
        (table.PYTORCHJOB, "pytorchReplicaSpecs"),
        (table.PADDLEJOB, "paddleReplicaSpecs"),
        (table.JAXJOB, "jaxReplicaSpecs"),
    ],
)
def test_the_scale_of_a_training_job_moves_its_workers_only(kind, specs):
    roles = {"Master": {"template": template()}, "Worker": ROLES["A"]}
    ask = kinds.scaled(kinds.asked(kind, {"spec": {specs: roles}}), 8)

    assert (both(cpu=9000), 9, 8) == (ask.demand, ask.pods, ask.replicas)


def test_the_scale_of_what_is_suspended_holds_nothing():
    roles = {"Worker": ROLES["A"]}
    spec = {"pytorchReplicaSpecs": roles, "runPolicy": {"suspend": True}}
    ask = kinds.scaled(kinds.asked(table.PYTORCHJOB, {"spec": spec}), 8)

    assert ({}, 0, 8) == (ask.demand, ask.pods, ask.replicas)


def test_a_kind_with_several_templates_and_no_scale_cannot_be_scaled():
    ask = kinds.asked(table.TFJOB, {"spec": {"tfReplicaSpecs": ROLES}})

    with pytest.raises(DemandError, match="cannot be scaled"):
        kinds.scaled(ask, 2)


def test_a_scale_to_zero_has_no_replicas():
    assert Scale("u", 0) == kinds.scale_of({"metadata": {"uid": "u"}, "spec": {}})


def test_a_scale_beyond_a_ledgers_row_is_refused():
    ask = Ask(per_replica={"limits.memory": 2**40}, replicas=0)

    with pytest.raises(DemandError, match="above"):
        kinds.scaled(ask, 2**31 - 1)


def test_an_autoscaler_names_its_target_and_its_most_replicas():
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 7, "minReplicas": 2}

    assert ScaleTarget("apps", "Deployment", "web", 7) == kinds.target_of({"spec": spec})


@pytest.mark.parametrize(
    "spec", [{}, {"scaleTargetRef": {}}, {"scaleTargetRef": [], "maxReplicas": 1}]
)
def test_an_autoscaler_without_target_or_bound_is_refused(spec):
    with pytest.raises(DemandError):
        kinds.target_of({"spec": spec})


# --- owners ----------------------------------------------------------------------------------------


def owned(api_version, kind, controller=True):
    owner = {"apiVersion": api_version, "kind": kind, "name": "n", "uid": "u"}
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "o", "uid": "o"}
    return {"ownerReferences": [other, owner | {"controller": controller}]}


OWNERS = {
    "a governed controller": (owned("apps/v1", "ReplicaSet"), Owner("ReplicaSet", "n", "u")),
    "in any version": (owned("kubeflow.org/v9", "TFJob"), Owner("TFJob", "n", "u")),
    "an owner that does not control": (owned("apps/v1", "ReplicaSet", False), None),
    "a controller that is not governed": (owned("argoproj.io/v1alpha1", "Workflow"), None),
    "a kind of the same name elsewhere": (owned("example.com/v1", "Job"), None),
    "a pod, which covers itself only": (owned("v1", "Pod"), None),
    "nobody": ({}, None),
}


@pytest.mark.parametrize(("metadata", "owner"), OWNERS.values(), ids=OWNERS)
def test_what_hangs_below_a_governed_owner_is_the_owners(metadata, owner):
    assert owner == kinds.governing_owner(metadata)


@pytest.mark.parametrize("references", [{"x": 1}, ["x"], [{"controller": True, "kind": 3}], "x"])
def test_references_that_are_none_are_refused(references):
    with pytest.raises(DemandError):
        kinds.governing_owner({"ownerReferences": references})


# --- hostile input ---------------------------------------------------------------------------------

NASTY = (
    None,
    True,
    -1,
    2**63,
    1e300,
    "",
    "x" * 10_000,
    "1e3000000",
    [],
    [[]],
    {},
    {"": {}},
    [None],
)
SAMPLES = [
    (kind, {"metadata": {"labels": {QUOTA: "q"}, "annotations": {"a": "b"}}, "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "active": [{}]}})
    for kind, spec, *_ in SIZES.values()
] + [(kind, object) for kind, object, *_ in CAN_MAKE.values()]  # fmt: skip


def places(value, path=()):
    """Every place in an object, the object itself first."""
    yield path
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield from places(value[key], (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], new)
    return copied


@pytest.mark.parametrize(("kind", "object"), SAMPLES, ids=[*SIZES, *CAN_MAKE])
def test_whatever_stands_in_a_field_the_object_is_read_or_refused(kind, object):
    for path in places(object):
        for nasty in NASTY:
            hostile = replaced(object, path, nasty)
            try:
                assert kinds.asked(kind, hostile).pods >= 0
            except DemandError as error:
                assert error.reason and len(str(error)) < 1000, (path, nasty)


# --- what waits ----------------------------------------------------------------------------------------


def job(suspend=True, annotations=None, **status):
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"suspend": suspend, "parallelism": 2, "template": template("3")},
        "status": status,
    }


QUEUED = {kinds.QUEUE_ANNOTATION: "team"}
WANTED = {"requests.cpu": 6000, "limits.cpu": 6000}
ENDED = [{"type": "Failed", "status": "True"}]


@pytest.mark.parametrize(
    ("object", "demand", "wanted", "held"),
    [
        pytest.param(job(False, QUEUED), WANTED, {}, False, id="what runs wants no more"),
        pytest.param(job(True), {}, WANTED, False, id="what its user suspended does not wait"),
        pytest.param(job(True, QUEUED), {}, WANTED, True, id="suspended and annotated waits"),
        pytest.param(job(True, QUEUED, conditions=ENDED), {}, {}, False, id="ended wants nothing"),
    ],
)
def test_what_a_suspended_job_wants(object, demand, wanted, held):
    ask = kinds.asked(table.JOB, object)

    assert (demand, wanted, held) == (ask.demand, ask.wanted, ask.held)


def test_these_kinds_wait_in_queues():
    waiting = [kind.kind for kind in kinds.GOVERNED if kind.queues]

    of_training = ["TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob"]
    assert ["Job", *of_training, "RayJob", "JobSet", "TrainJob"] == waiting
    assert all(kind.suspend for kind in kinds.GOVERNED if kind.queues)


def test_a_suspended_kind_that_does_not_queue_is_never_held():
    cron = {"metadata": {"annotations": QUEUED}, "spec": {"suspend": True, "jobTemplate": job()}}

    assert not kinds.asked(table.CRONJOB, cron).held


def test_specs_of_many_bytes_are_not_remembered():
    templates._known.cache_clear()
    many = [resources({"cpu": "1"})] * 200
    assert of_pod(resources({"cpu": "1"})) == of_pod(resources({"cpu": "1"}))
    assert of_pod(*many) == of_pod(*many) == both(cpu=200_000)

    found = templates._known.cache_info()
    assert (found.misses, found.hits) == (1, 1)

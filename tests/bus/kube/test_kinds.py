"""What workloads ask for: each kind's pods and templates, and what waits."""

import pytest

from bus.errors import DemandError
from bus.events.pods import Owner
from bus.kube import kinds
from bus.kube.kinds import table, templates
from bus.kube.kinds.shape import Ask, Scale, Target
from tests.bus.containers import resources
from tests.bus.kube.workloads import ROLES, both, deployment, of_pod, refused, template

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
    "an MPIJob": (table.MPIJOB, {"mpiReplicaSpecs": ROLES}, 3, 6),
    "a Notebook is one pod": (table.NOTEBOOK, {"template": template("2")}, 1, 2),
    "a RayCluster is its head and its groups within their bounds": (
        table.RAYCLUSTER, RAY, 1 + 6 + 4 + 5, 1 + 12 + 32 + 80),
    "a RayJob counts the submitter that it describes": (
        table.RAYJOB, {"rayClusterSpec": RAY, "submitterPodTemplate": template("3")}, 17, 128),
    "a RayJob on a cluster of others is its submitter": (
        table.RAYJOB, {"clusterSelector": {}, "submitterPodTemplate": template("3")}, 1, 3),
    "a JobSet is its jobs, each as often as it is replicated": (
        table.JOBSET, {"replicatedJobs": JOBS}, 7, 13),
    "a plain Pod": (table.POD, template("2")["spec"], 1, 2),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "pods", "cores"), SIZES.values(), ids=SIZES)
def test_what_a_kind_asks_for(kind, spec, pods, cores):
    ask = kinds.asked(kind, {"metadata": {}, "spec": spec})

    assert (pods, both(cpu=1000 * cores)) == (ask.pods, ask.demand)


def test_a_daemon_set_asks_for_as_many_pods_as_its_controller_wants():
    """On how many nodes it runs stands in its status, which its users cannot write."""
    spec = {"template": template("2")}
    new = kinds.asked(table.DAEMONSET, {"metadata": {}, "spec": spec})
    running = {"metadata": {}, "spec": spec, "status": {"desiredNumberScheduled": 3}}

    assert (new.pods, new.demand) == (0, {})
    assert kinds.asked(table.DAEMONSET, running) == kinds.scaled(new, 3)
    assert kinds.scaled(new, 3).demand == both(cpu=6000)


def test_every_kind_is_tested_and_found_by_its_names():
    # A TrainJob asks for what its runtime says: tests/bus/kube/test_runtimes.py.
    tested = {kind.kind for kind, *_ in SIZES.values()} | {"DaemonSet", "TrainJob"}
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
    "a RayJob that has ended and keeps its cluster": (
        table.RAYJOB,
        {"spec": {"rayClusterSpec": RAY}, "status": {"jobDeploymentStatus": "Complete"}}, False),
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


def test_the_scale_of_a_training_job_moves_its_workers_only():
    roles = {"Master": {"template": template()}, "Worker": ROLES["A"]}
    ask = kinds.scaled(kinds.asked(table.PYTORCHJOB, {"spec": {"pytorchReplicaSpecs": roles}}), 8)

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

    assert Target("apps", "Deployment", "web", 7) == kinds.target_of({"spec": spec})


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
]  # fmt: skip


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


@pytest.mark.parametrize(("kind", "object"), SAMPLES, ids=SIZES)
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

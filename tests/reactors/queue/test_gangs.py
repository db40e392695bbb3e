"""What a quota of `spec.queue.gang` holds gets nodes as one gang: its pod templates say so, in every kind that has them."""

import msgspec
import pytest

from bus.kube.kinds import GOVERNED, table
from bus.kube.kinds.gangs import together
from bus.memory import MemoryTransport
from bus.sources.podgroups import gang_terms
from reactors.queue.hold import ganged
from tests.reactors.queue.jobs import Jobs, manifest, patched

TEMPLATE = {"spec": {"containers": [{"resources": {"limits": {"cpu": "2"}}}]}}
TWO = {"replicas": 2, "template": TEMPLATE}
ONE = {"replicas": 1, "template": TEMPLATE}
JOB = {"parallelism": 3, "template": TEMPLATE}
NOTED = "gang.scheduling.koordinator.sh/"
#: By kind: a specification, and how many of its pods start together.
SPECS = {
    "Job": (JOB, 3),
    "TFJob": ({"tfReplicaSpecs": {"Worker": TWO, "PS": ONE}}, 3),
    "PyTorchJob": ({"pytorchReplicaSpecs": {"Worker": TWO}, "runPolicy": {"schedulingPolicy": {"minAvailable": 1}}}, 1),
    "XGBoostJob": ({"xgbReplicaSpecs": {"Master": ONE, "Worker": ONE}}, 2),
    "PaddleJob": ({"paddleReplicaSpecs": {"Worker": TWO}}, 2),
    "JAXJob": ({"jaxReplicaSpecs": {"Worker": TWO}}, 2),
    "RayJob": ({
        "rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [TWO | {"maxReplicas": 9}]},
        "submitterPodTemplate": TEMPLATE,
    }, 3),
    "JobSet": ({"replicatedJobs": [
        {"name": "a", "replicas": 2, "template": {"spec": JOB}}, {"name": "b", "template": {"spec": {"template": TEMPLATE}}},
    ]}, 7),
}  # fmt: skip


def written(spec, **metadata):
    return {"metadata": {"name": "w"} | metadata, "spec": spec}


def named(kind, object):
    """What each of its pod templates says of a gang."""
    found = [template.get("metadata") or {} for _, template in together(kind, object)[1]]
    return [gang_terms(None, one.get("labels"), one.get("annotations")) for one in found]


WAITING = [one for one in GOVERNED if one.queues and not one.has_runtime]


@pytest.mark.parametrize("kind", WAITING, ids=lambda kind: kind.kind)
def test_every_template_of_a_workload_says_its_gang_and_how_many_start_together(kind):
    spec, least = SPECS[kind.kind]
    found = named(kind, patched(written(spec), ganged(kind, written(spec), "r")))

    assert {(one.name, one.least) for one in found} == {("w", str(least))}
    assert len(found) == (2 if kind.kind in ("TFJob", "XGBoostJob", "RayJob", "JobSet") else 1)


def test_what_stands_in_a_template_stays():
    template = TEMPLATE | {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    object = written(JOB | {"template": template})
    said = patched(object, ganged(table.JOB, object, "r"))["spec"]["template"]["metadata"]
    assert said["labels"] == {"a": "b"}
    assert said["annotations"] == {"c": "d", f"{NOTED}name": "w", f"{NOTED}min-available": "3"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {f"{NOTED}name": "mine"}},
        {"annotations": {"scheduling.k8s.io/group-name": "mine"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "mine"}},
    ],
    ids=["light", "volcano", "plugins"],
)
def test_a_template_that_names_a_gang_itself_is_left_as_it_is(metadata):
    assert (
        ganged(table.JOB, written(JOB | {"template": TEMPLATE | {"metadata": metadata}}), "r") == []
    )


def test_pods_of_its_own_gang_are_left_too():
    spec = TEMPLATE["spec"] | {"schedulingGroup": {"podGroupName": "mine"}}
    assert ganged(table.JOB, written(JOB | {"template": {"spec": spec}}), "r") == []


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (table.JOB, {"template": TEMPLATE}),
        (table.JOB, JOB | {"completions": 1}),
        (table.JOBSET, SPECS["JobSet"][0] | {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
        (table.JOBSET, {"replicatedJobs": [
            {"template": {"spec": JOB}}, {"template": {"spec": JOB}, "dependsOn": [{"name": "a", "status": "Ready"}]},
        ]}),
        (table.RAYJOB, {"rayClusterSpec": SPECS["RayJob"][0]["rayClusterSpec"] | {"enableInTreeAutoscaling": True}}),
        (table.TRAINJOB, {"runtimeRef": {"name": "torch"}}),
    ],
    ids=["one pod", "one at a time", "in order", "one after another", "as there is work", "no template"],
)  # fmt: skip
def test_pods_that_do_not_come_together_are_no_gang(kind, spec):
    """They would wait for each other for ever."""
    assert ganged(kind, written(spec), "r") == []


def test_what_has_no_name_yet_has_a_gang_of_its_own():
    object = {"metadata": {"generateName": "w-"}, "spec": JOB}
    names = {
        named(table.JOB, patched(object, ganged(table.JOB, object, uid)))[0].name for uid in "rs"
    }
    assert names == {"w-r", "w-s"}


async def test_only_a_quota_that_says_so_marks_what_it_holds():
    for gang in (False, True):
        async with Jobs(MemoryTransport()) as cluster:
            await cluster.see_team(10, gang=gang)
            await cluster.create("a", 1, pods=2)
            template = cluster.objects["a"]["spec"]["template"]
            said = (template.get("metadata") or {}).get("annotations") or {}
            assert (f"{NOTED}name" in said) == gang


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": {"annotations": "x"}},
        {"spec": TEMPLATE["spec"] | {"schedulingGroup": "x"}},
        {"spec": TEMPLATE["spec"] | {"schedulingGroup": {"podGroupName": 7}}},
        {"metadata": {"annotations": {f"{NOTED}name": 7}}},
    ],
    ids=["annotations", "group", "name of a group", "name of a gang"],
)
async def test_who_writes_what_nobody_can_read_passes_no_queue(wrong):
    """Custom resources are checked by nobody before they are held: their templates may say anything."""
    async with Jobs(MemoryTransport()) as cluster:
        await cluster.see_team(10, gang=True)
        object = manifest("a", 1, pods=2)
        object["spec"]["template"] |= wrong
        answer = await cluster.hold(cluster._review(object, None, "CREATE"))

    assert answer.reason == "held"
    assert patched(object, msgspec.json.decode(answer.patch))["spec"]["suspend"]

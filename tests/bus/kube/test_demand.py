"""Amounts of workloads: the rows of docs/wrong-input.md D that are about them."""

import copy

import pytest

from bus.errors import DemandError
from bus.kube import kinds
from bus.kube.kinds import table
from tests.bus.containers import resources
from tests.bus.counting import counted_calls
from tests.bus.kube.workloads import (
    BIG,
    ROLES,
    both,
    deployment,
    of_pod,
    refused,
    template,
    with_values,
)

NO_COUNTS = {
    "-1": (-1, "negative"),
    "2**31": (2**31, "above 2147483647"),
    "2**63": (2**63, "above 2147483647"),
    "1.5": (1.5, "not a whole number"),
    "1.0": (1.0, "not a whole number"),
    "text": ("3", "not a whole number"),
    "true": (True, "not a whole number"),
}


@pytest.mark.parametrize(("value", "reason"), NO_COUNTS.values(), ids=NO_COUNTS)
def test_D1_replicas_that_are_no_count_are_refused_with_their_path(value, reason):
    roles = with_values("A.replicas", value, ROLES)
    job = {"spec": {"parallelism": 1, "completions": value, "template": template()}}

    assert ("spec.replicas", reason) == refused(table.DEPLOYMENT, deployment(value))
    assert ("spec.tfReplicaSpecs.A.replicas", reason) == refused(
        table.TFJOB, {"spec": {"tfReplicaSpecs": roles}}
    )
    assert ("spec.completions", reason) == refused(table.JOB, job)
    with pytest.raises(DemandError, match=reason):
        kinds.scale_of({"metadata": {"uid": "u"}, "spec": {"replicas": value}})


def test_D1_null_replicas_are_the_kinds_default():
    group = [{"replicas": None, "template": template()}]
    cluster = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": group}

    assert 1 == kinds.asked(table.DEPLOYMENT, deployment(None)).pods
    assert 1 == kinds.asked(table.RAYCLUSTER, {"spec": cluster}).pods


def test_D2_an_amount_times_replicas_is_exact_or_refused():
    exact = str(BIG // 1000)
    ask = kinds.asked(table.DEPLOYMENT, deployment(1000, f"{BIG // 1000}m"))

    assert both(cpu=BIG // 1000 * 1000) == ask.demand
    assert ("spec: requests.cpu", f"above {BIG}") == refused(
        table.DEPLOYMENT, deployment(1001, f"{exact}m")
    )
    assert (
        "spec.template.spec.containers[0].resources.requests.cpu"
        == (refused(table.DEPLOYMENT, deployment(1000, str(BIG)))[0])
    )


def test_D3_the_largest_count_of_devices_is_refused():
    device = resources(limits={"example.com/device": str(BIG)})
    half = resources(limits={"example.com/device": str(BIG // 1000)})
    workload = {"spec": {"replicas": 1000, "template": {"spec": {"containers": [half, half]}}}}

    assert (
        "spec.containers[0].resources.limits.example.com/device"
        == (refused(table.POD, {"spec": {"containers": [device, device]}})[0])
    )
    assert f"above {BIG}" == refused(table.DEPLOYMENT, workload)[1]


#: What is limited to what it requests.
ALIKE = {"requests.cpu": 2000, "limits.cpu": 2000}
D4 = {
    "only limits": (
        [resources(limits={"cpu": "2"})], {"requests.cpu": 2000, "limits.cpu": 2000}),
    "limits below requests are what they are": (
        [resources({"cpu": "2"}, {"cpu": "1"})], {"requests.cpu": 2000, "limits.cpu": 1000}),
    "a request of zero is a request": (
        [resources({"cpu": "0"}, {"cpu": "1"})], {"limits.cpu": 1000}),
    "nothing": ([{}], {}),
    "null is zero": ([resources({"cpu": None})], {}),
    "numbers, as custom resources keep them": (
        [resources({"cpu": 2, "memory": 1.5})], {**ALIKE, "requests.memory": 2, "limits.memory": 2}),
    "rounded up once, at the pod": (
        [resources({"cpu": "0.1m", "a.b/c": "100m"})] * 3,
        {"requests.cpu": 1, "limits.cpu": 1, "requests.a.b/c": 1, "limits.a.b/c": 1}),
    "a limit that is not stated counts as the request": (
        [resources({"cpu": "1"}), resources({"cpu": "500m"}, {"cpu": "2"})],
        {"requests.cpu": 1500, "limits.cpu": 3000}),
    "a limit of zero is none": ([resources({"cpu": "2"}, {"cpu": "0"})], ALIKE),
}  # fmt: skip


@pytest.mark.parametrize(("containers", "want"), D4.values(), ids=D4)
def test_D4_requests_and_limits_as_kubernetes_defaults_them(containers, want):
    assert want == of_pod(*containers)


def test_D4_a_pod_that_asks_for_nothing_is_still_counted():
    ask = kinds.asked(table.POD, {"spec": {"containers": [{}]}})

    assert (1, {}) == (ask.pods, ask.demand)


ONE, TWO, FOUR = ({"limits": {"cpu": n}} for n in ("1", "2", "4"))
SIDECAR = {"restartPolicy": "Always"}
D5 = {
    "the largest init container": (
        dict(containers=[{"resources": ONE}] * 2, initContainers=[{"resources": FOUR}]),
        both(cpu=4000)),
    "a sidecar adds": (
        dict(containers=[{"resources": ONE}], initContainers=[{"resources": TWO, **SIDECAR}]),
        both(cpu=3000)),
    "an init container beside the sidecars before it": (
        dict(containers=[{"resources": ONE}],
             initContainers=[{"resources": TWO, **SIDECAR}, {"resources": FOUR}]),
        both(cpu=6000)),
    "overhead adds to what has a limit": (
        dict(containers=[{"resources": ONE}], overhead={"cpu": "250m", "memory": "1"}),
        {**both(cpu=1250), "requests.memory": 1}),
    "pod-level amounts replace": (
        dict(containers=[{"resources": ONE}], resources={"requests": {"cpu": "3"}, "limits": TWO["limits"]}),
        {"requests.cpu": 3000, "limits.cpu": 2000}),
    "a pod-level limit is a request where no container asks": (
        dict(containers=[{"resources": ONE}], resources={"limits": {"cpu": "2", "memory": "8"}}),
        {"requests.cpu": 1000, "limits.cpu": 2000, **both(memory=8)}),
    "ephemeral containers ask for nothing": (
        dict(containers=[{"resources": ONE}], ephemeralContainers=[{"resources": FOUR}]),
        both(cpu=1000)),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "want"), D5.values(), ids=D5)
def test_D5_init_containers_sidecars_overhead_and_pod_level_amounts(spec, want):
    assert want == kinds.asked(table.POD, {"spec": spec}).demand


@pytest.mark.parametrize(
    ("least", "reason"),
    [
        (0, "a gang of nobody"),
        (-1, "negative"),
        (4, "more than the 3 pods of the workload"),
        (2.0, "not a whole number"),
    ],
)
def test_D15_a_gang_that_can_never_start_is_refused(least, reason):
    policy = {"schedulingPolicy": {"minAvailable": least}}
    job = {"spec": {"tfReplicaSpecs": ROLES, "runPolicy": policy}}

    assert ("spec.runPolicy.schedulingPolicy.minAvailable", reason) == refused(table.TFJOB, job)


def test_D15_a_gang_of_all_is_fine():
    policy = {"schedulingPolicy": {"minAvailable": 3}}

    assert kinds.asked(table.TFJOB, {"spec": {"tfReplicaSpecs": ROLES, "runPolicy": policy}}).pods


def test_D19_more_than_64_pod_sets_are_refused():
    def job(sets):
        return {"spec": {"tfReplicaSpecs": {f"r{n}": ROLES["A"] for n in range(sets)}}}

    assert 128 == kinds.asked(table.TFJOB, job(64)).pods
    assert ("spec.tfReplicaSpecs.*", "more than 64 pod sets") == refused(table.TFJOB, job(65))
    with counted_calls() as calls:
        assert refused(table.TFJOB, job(20_000))[1] == "more than 64 pod sets"
    assert calls[0] < 2_000


MISSHAPEN = {
    "no spec": ({}, "spec", "missing"),
    "a spec that is none": ({"spec": 3}, "spec", "not an object"),
    "no template": ({"spec": {}}, "spec.template", "missing"),
    "no containers": (
        {"spec": {"template": {"spec": {}}}}, "spec.template.spec.containers", "no containers"),
    "containers that are none": (
        {"spec": {"template": {"spec": {"containers": "x"}}}},
        "spec.template.spec.containers", "Expected `array | null`, got `str`"),
    "a borrowed template": (
        {"spec": {"workloadRef": {"name": "x"}}}, "spec.template", "missing"),
}  # fmt: skip


@pytest.mark.parametrize(("object", "path", "reason"), MISSHAPEN.values(), ids=MISSHAPEN)
def test_a_misshapen_object_is_refused_with_the_path_of_the_field(object, path, reason):
    assert (path, reason) == refused(table.ROLLOUT, object)


def test_more_resources_than_a_fact_can_carry_are_refused():
    many = resources({f"example.com/r{n}": "1" for n in range(65)})

    assert "more than 64 resources" == refused(table.POD, {"spec": {"containers": [many]}})[1]
    assert refused(table.POD, {"spec": {"containers": [resources({"x" * 400: "1"})]}})


def test_more_containers_than_can_be_summed_beside_other_reviews_are_refused():
    """30,000 of them took a second, in which nothing else was answered."""

    def spec(count):
        return {"template": {"spec": {"containers": [{"name": f"c{n}"} for n in range(count)]}}}

    whole = {"spec": {"tfReplicaSpecs": {"Worker": spec(600), "PS": spec(400)}}}
    assert kinds.asked(table.TFJOB, whole).pods == 2
    whole["spec"]["tfReplicaSpecs"]["PS"] = spec(401)
    assert refused(table.TFJOB, whole)[1] == "more than 1000 containers"


def test_reading_changes_nothing_of_the_object():
    workload = {"spec": {"tfReplicaSpecs": ROLES}}
    before = copy.deepcopy(workload)
    kinds.asked(table.TFJOB, workload)

    assert before == workload


def test_D19_more_quantities_than_are_summed_in_time_are_refused():
    """60,000 of them, of 1,000 containers, held up every other review for 0.2 s."""
    named = {f"example.com/r{n}": "1" for n in range(64)}

    def job(containers):
        template = {"spec": {"containers": [resources(named)] * containers}}
        return {"spec": {"tfReplicaSpecs": {one: {"template": template} for one in "ab"}}}

    assert 2 == kinds.asked(table.TFJOB, job(64)).pods
    assert "more than 8192 quantities" == refused(table.TFJOB, job(65))[1]

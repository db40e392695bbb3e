"""What we say a workload asks for is what a real API server charges its pods to a ResourceQuota."""

import random

import pytest

from bus.amounts import observed_quantity
from bus.kube import kinds
from bus.kube.kinds import table
from tests.cluster.api import eventually

pytestmark = pytest.mark.kube

NATIVE = ("cpu", "memory", "ephemeral-storage")
DEVICE, PAGES = "nvidia.com/gpu", "hugepages-2Mi"
KEYS = [f"{part}.{name}" for part in ("requests", "limits") for name in NATIVE]
KEYS += [f"requests.{DEVICE}", f"requests.{PAGES}"]
OVERHEAD = {"cpu": "137m", "memory": "12345678"}
AMOUNTS = {
    "cpu": ("100m", "0.25", "1", "1e-1", "3", "0"),
    "memory": ("1Mi", "100M", "12345678", "1.5Gi", "1Ki"),
    "ephemeral-storage": ("1Gi", "5M", "1"),
}


@pytest.fixture
def quota(plane, namespace):
    """Gives what the quota of the namespace has used, by key, in our units."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    hard = {"hard": dict.fromkeys(KEYS, "1P") | {"pods": "1k"}}
    body = {"metadata": {"name": "all"}, "spec": hard}
    plane.api.request("POST", path, body)

    def used():
        status = plane.api.request("GET", f"{path}/all").get("status", {})
        nano = {key: observed_quantity(text) for key, text in status.get("used", {}).items()}
        return {k: -(-v // (10**6 if k.endswith(".cpu") else 10**9)) for k, v in nano.items()}

    eventually(used)
    return used


@pytest.fixture
def runtime(plane, namespace):
    """The name of a runtime class with an overhead."""
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    body = {"metadata": {"name": namespace}, "handler": "x", "overhead": {"podFixed": OVERHEAD}}
    plane.api.request("POST", path, body)
    yield namespace
    plane.api.request("DELETE", f"{path}/{namespace}")


def amounts(dice, name):
    """A request and a limit that is no smaller; either may be missing."""
    pair = sorted(dice.sample(AMOUNTS[name], 2), key=observed_quantity)
    return [text if dice.random() < 0.7 else None for text in pair]


def container(dice, name, *, complete=False):
    """A container with some amounts, all of them where ``complete``: quotas want them of each pod."""
    held = {"requests": {}, "limits": {}}
    for resource in NATIVE:
        request, limit = amounts(dice, resource)
        limit = limit or ("4Gi" if resource != "cpu" else "4") if complete else limit
        held["requests"] |= {resource: request} if request else {}
        held["limits"] |= {resource: limit} if limit else {}
    if dice.random() < 0.4:
        held["limits"][DEVICE] = "2"
    if dice.random() < 0.3:
        held["limits"][PAGES] = "4Mi"
    return {"name": name, "image": "x", "resources": held}


def complete_everywhere(dice, names, **more):
    return [container(dice, name, complete=True) | more for name in names]


def pod_spec(dice, runtime):
    containers = complete_everywhere(dice, "ab"[: dice.randint(1, 2)])
    spec = {"containers": containers, "nodeSelector": {"no": "where"}}
    init = complete_everywhere(dice, "cde"[: dice.randint(0, 3)])
    spec["initContainers"] = [
        one | ({"restartPolicy": "Always"} if dice.random() < 0.5 else {}) for one in init
    ]
    if dice.random() < 0.4:
        spec |= {"runtimeClassName": runtime, "overhead": OVERHEAD}
    if dice.random() < 0.4:
        spec["resources"] = {"limits": {"cpu": "64", "memory": "64Gi"}}
        if dice.random() < 0.5:
            spec["resources"]["requests"] = {"cpu": "48"}
    return spec


def test_a_pod_is_charged_by_its_quota_what_we_say_it_asks_for(plane, namespace, quota, runtime):
    dice = random.Random(4)
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(40):
        spec = pod_spec(dice, runtime)
        before = quota()
        plane.api.request("POST", path, {"metadata": {"name": f"p{number}"}, "spec": spec})
        after = quota()
        ask = kinds.asked(table.POD, {"spec": spec})
        charged = {key: after[key] - before[key] for key in KEYS}

        assert ({key: ask.demand.get(key, 0) for key in KEYS}, 1) == (charged, ask.pods), spec


def test_the_pods_of_a_workload_are_charged_what_we_say_it_asks_for(plane, namespace, quota):
    dice = random.Random(5)
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": complete_everywhere(dice, "ab")},
    }
    selector = {"matchLabels": {"app": "x"}}
    web = {"replicas": 3, "selector": selector, "template": template}
    never = template | {"spec": template["spec"] | {"restartPolicy": "Never"}}
    batch = {"parallelism": 4, "completions": 2, "template": never}
    asks = []
    for kind, spec in ((table.DEPLOYMENT, web), (table.JOB, batch)):
        where = f"/apis/{kind.group}/v1/namespaces/{namespace}/{kind.resource}"
        made = plane.api.request("POST", where, {"metadata": {"name": "w"}, "spec": spec})
        asks.append(kinds.asked(kind, made))
    want = {key: sum(ask.demand.get(key, 0) for ask in asks) for key in KEYS}

    assert 5 == sum(ask.pods for ask in asks)
    assert eventually(lambda: want == {key: quota().get(key) for key in KEYS}, seconds=60)

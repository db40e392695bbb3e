"""Evictions on a real API server: by uid, never against a disruption budget, never a namesake. Source: reliability.md P25."""

import msgspec
import pytest

from bus.events.decisions import Evict, Target
from bus.kube import Access, connect
from reactors.effectors.evict import EvictEffector
from reactors.engine.contract import decision_id
from tests.cluster.api import eventually

pytestmark = pytest.mark.kube


@pytest.fixture
async def effector(plane):
    cluster = await connect(Access(str(plane.kubeconfig)))
    yield EvictEffector(cluster)
    await cluster.close()


def run_pod(plane, namespace, name):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "100m"}}}
    body = {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [container]},
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    plane.api.request("POST", path, body)

    def ready():
        found = plane.api.request("GET", f"{path}/{name}")
        conditions = found["status"].get("conditions", ())
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) and found

    return eventually(ready, seconds=60)


def protect(plane, namespace, least):
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}
    plane.api.request("POST", path, {"metadata": {"name": "web-budget"}, "spec": spec})

    def seen():
        status = plane.api.request("GET", f"{path}/web-budget").get("status", {})
        return status.get("observedGeneration") and status.get("currentHealthy") == 2

    eventually(seen, seconds=60)


def decision(found):
    meta = found["metadata"]
    target = Target("Pod", meta["namespace"], meta["name"], meta["uid"])
    return Evict(
        id=decision_id("evictions", 1, meta["uid"]), reactor="evictions", rules=1, key=meta["uid"],
        trigger=1, at_us=1, policy="p", is_shadow=False, target=target, reason="quota-overused",
        expires_us=2**53,
    )  # fmt: skip


async def test_one_goes_and_the_disruption_budget_keeps_the_other(plane, namespace, effector):
    first, second = (run_pod(plane, namespace, name) for name in ("a", "b"))
    protect(plane, namespace, 1)

    assert ("done", "") == await effector.act(decision(first))
    result, message = await effector.act(decision(second))
    assert result == "refused"
    assert "The disruption budget web-budget needs 1" in message
    items = plane.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    kept = [one["metadata"]["name"] for one in items if "deletionTimestamp" not in one["metadata"]]
    assert ["b"] == kept


async def test_a_namesake_is_never_touched(plane, namespace, effector):
    found = run_pod(plane, namespace, "a")
    target = msgspec.structs.replace(decision(found).target, uid="another")
    other = msgspec.structs.replace(decision(found), target=target)

    assert ("gone", "another object has this name") == await effector.act(other)

"""Evictions on a real API server: by uid, never against a disruption budget, never a namesake. Source: docs/reliability.md."""

import msgspec
import pytest

from bus import crashpoints
from bus.errors import ConflictError, NotFoundError
from bus.events.decisions import Evict, Target
from bus.kube.client import Access, connect
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


class Killed(BaseException):
    """Ends a process as a signal does: nothing behind it runs."""


async def killed_at(effector, label, decided):
    """Let the process die at a label while it does what was decided."""

    def hook(reached):
        if reached == label:
            raise Killed(label)

    crashpoints.install(hook)
    try:
        with pytest.raises(Killed):
            await effector.act(decided)
    finally:
        crashpoints.install(None)


@pytest.mark.parametrize("label", ["evict.before_evict", "evict.after_evict"])
async def test_killed_at_either_label_the_next_process_finds_it_done_or_does_it(
    plane, namespace, effector, label
):
    found = run_pod(plane, namespace, "a")
    await killed_at(effector, label, decision(found))
    path = f"/api/v1/namespaces/{namespace}/pods"
    left = {one["metadata"]["name"]: one for one in plane.api.request("GET", path)["items"]}
    is_there = "a" in left and "deletionTimestamp" not in left["a"]["metadata"]
    assert is_there == (label == "evict.before_evict")

    try:
        assert "done" == (await effector.act(decision(found)))[0]
    except NotFoundError:
        # Its node has confirmed the end by now; the runner takes that for gone.
        assert not is_there

    def is_gone():
        items = plane.api.request("GET", path)["items"]
        return not [one for one in items if one["metadata"]["uid"] == found["metadata"]["uid"]]

    eventually(is_gone, seconds=60)


async def test_a_namesake_made_after_a_kill_is_never_touched(plane, namespace, effector):
    found = run_pod(plane, namespace, "a")
    await killed_at(effector, "evict.before_evict", decision(found))
    path = f"/api/v1/namespaces/{namespace}/pods"
    plane.api.request("DELETE", f"{path}/a", {"gracePeriodSeconds": 0})
    new = run_pod(plane, namespace, "a")
    assert new["metadata"]["uid"] != found["metadata"]["uid"]

    assert ("gone", "another object has this name") == await effector.act(decision(found))
    kept = plane.api.request("GET", f"{path}/a")["metadata"]
    assert (new["metadata"]["uid"], False) == (kept["uid"], "deletionTimestamp" in kept)


async def test_the_api_server_itself_keeps_a_namesake_made_between_look_and_eviction(
    plane, namespace, effector
):
    found = run_pod(plane, namespace, "a")
    path = f"/api/v1/namespaces/{namespace}/pods"

    def hook(reached):
        if reached == "evict.before_evict":
            plane.api.request("DELETE", f"{path}/a", {"gracePeriodSeconds": 0})
            run_pod(plane, namespace, "a")

    crashpoints.install(hook)
    try:
        with pytest.raises(ConflictError):
            await effector.act(decision(found))
    finally:
        crashpoints.install(None)
    kept = plane.api.request("GET", f"{path}/a")["metadata"]

    assert (True, False) == (
        kept["uid"] != found["metadata"]["uid"], "deletionTimestamp" in kept,
    )  # fmt: skip

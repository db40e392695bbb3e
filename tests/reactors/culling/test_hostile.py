"""What a tenant may write on objects, and what goes wrong between looks: nothing of it ends the process or stays for ever."""

import pytest

from bus.events.decisions import Restore, Target
from bus.kube.crds.culling import CULLED_BY, REPLICAS_BEFORE
from reactors.culling.effectors import StampWriter
from reactors.culling.effectors.patches import restoration, scale
from tests.factories import owner, pod_observed, pod_vanished, workload_observed
from tests.reactors.culling.scene import Notebooks


def view_of(at):
    return at.runner.replica.states["culling"]


@pytest.mark.parametrize("others", [(), ("set",)], ids=["itself", "each other"])
async def test_objects_that_control_each_other_end_nothing(others):
    at = Notebooks()
    await at.policy()
    ring = ("nb", *others)
    for uid, above in zip(ring, (*others, "nb"), strict=True):
        kind = "Notebook" if uid == "nb" else "StatefulSet"
        await at.say(workload_observed(uid, kind=kind, owner=owner(above)))
    await at.say(pod_observed("p", owner=owner(ring[-1])))
    await at.look("p")
    await at.pass_time(3_600)

    assert {"p"} == view_of(at).pods_below("nb")
    assert 0 == await StampWriter(at.runner.replica, None, at.clock).round()
    assert [] == at.story


async def test_a_pod_that_another_controller_took_over_is_below_that_one_only():
    at = Notebooks()
    await at.say(pod_observed("p", 1, owner=owner("old")), pod_observed("p", 2, owner=owner("new")))

    assert (set(), {"p"}) == (view_of(at).pods_below("old"), view_of(at).pods_below("new"))
    await at.say(pod_vanished("p", 3, owner=owner("new")))
    assert {} == at.runner.replica.cluster_state.index.owned


async def test_a_look_that_is_said_after_the_pods_end_is_not_kept():
    at = Notebooks()
    await at.say(pod_observed("p"), pod_vanished("p", at=5))
    await at.look("p", at=6)

    assert ({}, {}) == (view_of(at).activity, view_of(at).images)


@pytest.mark.parametrize("before", ["9" * 5_000, "-1", "1e3", "٣", ""])
def test_a_count_of_replicas_that_is_none_is_not_given_back(before):
    target = Target("Deployment", "ns", "nb", "u", "")
    restore = Restore(
        id="r", reactor="culling", rules=1, key="c", trigger=1, at_us=0, policy="", is_shadow=False,
        target=target, reason="asked", numbers={}, expires_us=1,
    )  # fmt: skip
    found = {
        "kind": "Deployment",
        "metadata": {
            "uid": "u",
            "resourceVersion": "1",
            "generation": 4,
            "annotations": {CULLED_BY: "c", REPLICAS_BEFORE: before},
        },
        "spec": {"replicas": 0},
    }

    assert restoration(restore, found) is None
    found["metadata"]["annotations"][REPLICAS_BEFORE] = "3"
    marked = restoration(restore, found)["metadata"]["annotations"]
    found["metadata"]["annotations"] |= marked
    found["metadata"]["generation"] = 5
    assert {"replicas": 3} == scale(restore, found)["spec"]
    found["metadata"]["annotations"][REPLICAS_BEFORE] = before
    assert scale(restore, found) is None

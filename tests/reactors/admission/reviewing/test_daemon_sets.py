"""A DaemonSet is charged by its pods: where it may run is never a reason to charge it unasked."""

import copy

import pytest

from bus.sources.catalogue import WORKLOADS
from tests.reactors.admission.below import CONTROLLER, OF, ask, made, show
from tests.reactors.admission.train_jobs import Trainer

pytestmark = pytest.mark.simulated

DAEMON_SET = WORKLOADS["DaemonSet"]
#: The nodes of a DaemonSet that runs nowhere, and of one for which admission cannot tell.
NOWHERE = {"nodeSelector": {"no": "where"}}
UNTOLD = {"affinity": {"nodeAffinity": {}}}


@pytest.fixture
async def cluster():
    async with Trainer() as running:
        await running.see_quota("team", {"limits.cpu": 10_000})
        for number in range(10):
            await running.see_node(f"node-{number}", f"uid-{number}")
        yield running


def placed(nodes, wants):
    """A DaemonSet of 4 cores a pod. ``wants``: what its controller reports of its nodes."""
    item = made("DaemonSet", "agent", 4)
    item["spec"]["template"]["spec"] |= copy.deepcopy(nodes)
    item["metadata"]["resourceVersion"] = "1"
    return {**item, "status": {"desiredNumberScheduled": wants}}


async def pods_that_pass(cluster):
    by = {"by": ("DaemonSet", "agent"), "user": CONTROLLER}
    passed = 0
    for number in range(10):
        if (await ask(cluster, "Pod", f"p{number}", 4, **by)).allowed:
            await show(cluster, "Pod", f"p{number}", 4, by=("DaemonSet", "agent"))
            passed += 1
    return passed


async def test_a_daemon_set_that_is_let_onto_more_nodes_stays_within_its_quota(cluster):
    """Its status grew to 10 pods unasked, was charged as what exists, and all 10 passed on a quota of 2."""
    before = placed(NOWHERE, 0)
    assert (await cluster.review(before, **OF["DaemonSet"])).allowed
    await cluster.see_object(DAEMON_SET, before)
    changed = {"operation": "UPDATE", "old_object": before}
    assert (await cluster.review(placed({}, 0), **OF["DaemonSet"], **changed)).allowed
    await cluster.see_object(DAEMON_SET, placed({}, 10), type="MODIFIED")

    assert await pods_that_pass(cluster) == 2
    assert cluster.used() == 8_000


async def test_a_daemon_set_with_affinity_stays_within_its_quota(cluster):
    assert (await cluster.review(placed(UNTOLD, 0), **OF["DaemonSet"])).allowed
    await cluster.see_object(DAEMON_SET, placed(UNTOLD, 10))

    assert await pods_that_pass(cluster) == 2
    assert cluster.used() == 8_000


async def test_pods_of_a_daemon_set_that_were_there_first_are_charged(cluster):
    await cluster.see_object(DAEMON_SET, placed({}, 3))
    for number in range(3):
        await show(cluster, "Pod", f"p{number}", 4, by=("DaemonSet", "agent"))

    assert cluster.used() == 12_000

"""The plan of a round: what may not move, what fits nowhere, what would be put back, and the caps."""

import msgspec
import pytest

from bus.events.constraints import LabelSelector
from reactors.migration.order import EVICTION_COST, NEVER
from tests import factories as f
from tests.reactors.rebalancing.clusters import Cluster, moves, refused
from tests.reactors.scheduling.terms import constrained

OLD = {"plugins": ["PodLifeTime"], "pod_life_time": {"max_seconds": 60}}
#: Pods that have always been there, beside an empty node.
EMPTY = ("n1", "n2")


def full(**fields):
    """Two old pods on a node that is fuller than the other."""
    return Cluster(*EMPTY).workload("a", ["n1"] * 4, **fields)


def test_old_pods_move_while_the_other_node_is_the_better_one():
    found = full().plan(**OLD)

    # Without a third one its own node would be the emptier one.
    assert list(moves(found).values()) == [("n1", "n2")] * 2
    assert list(refused(found).values()) == ["put-back"] * 2
    one = found.moves[0]
    assert (one.reason, one.ran_s, one.gpu_milli_s) == ("the pod is 10000 s old, limit 60 s", 10_000, 0)  # fmt: skip


def test_gpu_time_since_the_start_is_counted():
    offered = {"cpu": "10", "memory": "100Gi", "pods": "50", "nvidia.com/gpu": "8"}
    world = Cluster("n1", "n2", allocatable=offered).workload("a", ["n1"] * 4, gpu=2)

    assert world.plan(**OLD).moves[0].gpu_milli_s == 2 * 1000 * 10_000


def owned(kind):
    return {"owner": f.owner("w", kind)}


STAYING = {
    "bare-pod": {"owner": None},
    "daemonset": owned("DaemonSet"),
    "mirror-pod": owned("Node"),
    "excluded-namespace": {"namespace": "kube-system"},
    "critical-priority": {"priority": 2 * 10**9},
    "opted-out": {"annotations": {"bursar.io/do-not-move": "true"}},
    "gang": constrained({"gang": {"name": "g"}}),
    "workload-kind": owned("Job"),
    "unsettled-workload": owned("StatefulSet"),
}


@pytest.mark.parametrize("code", STAYING)
def test_a_pod_that_may_not_be_evicted_stays_and_a_bystander_moves(code):
    world = full()
    world.pod("odd", "n1", **{"owner": f.owner("a"), "created": -100, **STAYING[code]})
    found = world.plan(**OLD)

    assert refused(found)["odd"] == code
    if code not in ("opted-out", "gang", "critical-priority", "excluded-namespace"):
        assert len(found.moves) >= 1


@pytest.mark.parametrize("text", ["false", "", "yes"])
def test_another_text_of_the_annotation_is_no_opt_out(text):
    world = full(annotations={"bursar.io/do-not-move": text})

    assert len(world.plan(**OLD).moves) == 2


def test_an_eviction_cost_holds_its_pod_and_a_bystander_moves():
    world = full()
    world.pod("a-0", "n1", owner=f.owner("a"), cpu="1", annotations={EVICTION_COST: str(NEVER)})
    found = world.plan(**OLD)

    assert refused(found)["a-0"] == "opted-out" and found.moves


def test_a_workload_with_an_unready_pod_loses_none():
    world = full()
    world.pod("a-0", "n1", owner=f.owner("a"), cpu="1", is_unready=True)

    assert set(refused(world.plan(**OLD)).values()) == {"unsettled-workload"}


def test_the_only_replica_stays():
    world = Cluster(*EMPTY).workload("a", ["n1"]).workload("b", ["n1"] * 3)

    assert refused(world.plan(**OLD))["a-0"] == "single-replica"


@pytest.mark.parametrize("change", ["scales", "rolls", "pending", "ends"])
def test_a_workload_that_is_not_settled_loses_no_pod(change):
    world = full()
    if change == "scales":
        world.workload("a", ["n1"] * 4, replicas=5)
    elif change == "rolls":
        world.pod("new", "n2", owner=f.owner("a"))
    elif change == "pending":
        world.pod("a-0", owner=f.owner("a"), cpu="1", phase="Pending")
    else:
        world.pod("a-0", "n1", owner=f.owner("a"), cpu="1", deletion=5)
    found = world.plan(**OLD)

    assert moves(found) == {} and set(refused(found).values()) == {"unsettled-workload"}


@pytest.mark.parametrize("sets", [1, 2])
def test_a_deployment_with_pods_of_two_replica_sets_rolls_out_and_loses_none(sets):
    world = Cluster(*EMPTY)
    world.see(f.workload_observed("d", kind="Deployment", replicas=4, pods=4))
    for name in ("old", "new")[:sets]:
        world.see(f.workload_observed(name, owner=f.owner("d", "Deployment"), pods=4 // sets))
        for number in range(4 // sets):
            world.pod(f"{name}-{number}", "n1", owner=f.owner(name), cpu="1")
    found = world.plan(**{**OLD, "most_percent_of_workload": 1})

    if sets == 2:
        assert not found.moves and set(refused(found).values()) == {"unsettled-workload"}
    else:
        assert [one.workload for one in found.moves] == ["Deployment/d"]
        assert "most-of-workload" in refused(found).values()


def test_a_disruption_budget_protects_its_pods_alone():
    world = full(labels={"app": "a"}).workload("b", ["n1"] * 4, labels={"app": "b"})
    selector = LabelSelector({"app": "a"})
    world.see(f.disruption_budget_observed("b", selector=selector, allowed=0))
    found = world.plan(**OLD)
    codes = refused(found)

    assert {codes[f"a-{number}"] for number in range(4)} == {"disruption-budget"}
    assert moves(found) and all(name.startswith("b-") for name in moves(found))
    world.see(f.disruption_budget_observed("b", 2, 1, selector=selector, allowed=1))
    assert sum(name.startswith("a-") for name in moves(world.plan(**OLD))) == 1


def test_unknown_disruption_budgets_are_said():
    world = full()
    told = "disruption budgets were never listed: whether one protects a pod is unknown"
    assert told not in world.plan(**OLD).notes
    silent = Cluster.__new__(Cluster)
    super(Cluster, silent).__init__()

    assert told in silent.plan(**OLD).notes


CAPS = {
    "most_moves": "most-moves",
    "most_per_node": "most-per-node",
    "most_per_namespace": "most-per-namespace",
}


@pytest.mark.parametrize("cap", CAPS)
def test_a_cap_ends_the_moves(cap):
    world = Cluster(*EMPTY).workload("a", ["n1"] * 9).workload("b", ["n1"] * 9, cpu="0")
    assert len(world.plan(**OLD).moves) > 2
    found = world.plan(**{**OLD, cap: 2})

    assert len(found.moves) == 2 and CAPS[cap] in refused(found).values()


def test_one_percent_of_a_workload_is_one_pod_at_least():
    world = Cluster(*EMPTY).workload("a", ["n1"] * 9)
    found = world.plan(**{**OLD, "most_percent_of_workload": 1})

    assert len(found.moves) == 1 and "most-of-workload" in refused(found).values()


def test_a_plan_changes_no_row_of_the_cluster():
    world = full()
    before = msgspec.msgpack.encode(world.state.saved())
    world.plan(**OLD)

    assert msgspec.msgpack.encode(world.state.saved()) == before

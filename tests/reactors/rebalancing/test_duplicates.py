"""Pods of one controller on one node: those above the node's share move, if the scheduler would not put them back."""

from bus.events.constraints import Taint
from tests.reactors.rebalancing.clusters import Cluster, moves, refused

DUPLICATES = {"plugins": ["RemoveDuplicates"]}


def test_pods_above_the_share_of_their_node_move():
    world = (
        Cluster("n1", "n2", "n3").workload("a", ["n1"] * 3).workload("b", ["n2", "n3"], cpu="10m")
    )
    found = world.plan(**DUPLICATES)

    assert sorted(moves(found).values()) == [("n1", "n2"), ("n1", "n3")] and not found.refused
    assert found.moves[0].reason == "3 of 3 pods of the ReplicaSet are on n1, share 1"


def test_a_move_that_only_carries_a_duplicate_along_is_refused():
    world = Cluster("n1", "n2", "n3").workload("a", ["n1"] * 3)
    for name in "xyz":
        world.workload(name, ["n1", "n2"])
    found = world.plan(**DUPLICATES)

    assert list(moves(found).values()) == [("n1", "n3")]
    assert list(refused(found).values()) == ["destination-duplicates"] * 2


def test_a_pod_that_another_plugin_moves_counts_on_its_new_node():
    world = Cluster("n1", "n2").workload("a", ["n1"] * 3)
    world.use("n1", "8", a_0="3", a_1="3", a_2="2").use("n2", "1")
    pool = {"low": {"cpu": 30}, "high": {"cpu": 50}, "consecutive_abnormalities": 1}
    found = world.plan(plugins=["LowNodeLoad", "RemoveDuplicates"], low_node_load={"pools": [pool]})

    assert [one.plugin for one in found.moves] == ["LowNodeLoad"] and not found.refused


def test_nodes_that_are_closed_to_the_pods_share_nothing():
    world = Cluster("n1").node("n2", unschedulable=True)
    world.node("n3", taints=(Taint("k", "v", "NoSchedule"),)).workload("a", ["n1"] * 3)
    found = world.plan(**DUPLICATES)

    assert (found.moves, found.refused) == ((), ())


def test_pods_that_the_scheduler_would_put_back_stay():
    world = Cluster("n1", "n2").workload("a", ["n1"] * 2)
    for name in "xyz":
        world.workload(name, ["n2", "n2"], cpu="10m", annotations={"bursar.io/do-not-move": "true"})
        world.workload(f"large-{name}", ["n2"])
    found = world.plan(**DUPLICATES)

    assert moves(found) == {} and [refused(found)[f"a-{n}"] for n in range(2)] == ["put-back"] * 2

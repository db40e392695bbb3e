"""Nodes of which little is requested lose their pods to others, where the scheduler packs."""

from tests.reactors.rebalancing.clusters import Cluster, moves, refused

PACKING = {"fields": {"NodeResourcesFit": {"strategy": "MostAllocated"}}}


def packed(world, plugin=PACKING, **settings):
    return world.plan(
        plugins=["HighNodeUtilization"],
        high_node_utilization={"thresholds": {"cpu": 20}, **settings},
        **plugin,
    )


def cluster():
    """A node with six cores in use, and two with one or two each."""
    world = Cluster("n1", "n2", "n3").workload("full", ["n1"] * 6)
    return world.workload("a", ["n2", "n3"]).workload("b", ["n3", "n1"])


def test_the_emptiest_node_is_emptied_first():
    found = packed(cluster())

    assert list(moves(found).items()) == [
        ("a-0", ("n2", "n1")),
        ("a-1", ("n3", "n1")),
        ("b-0", ("n3", "n1")),
    ]
    assert found.moves[0].reason == "little of n2 is requested: cpu 10 %"


def test_a_scheduler_that_spreads_would_put_the_pods_back():
    found = packed(cluster(), plugin={})

    assert moves(found) == {} and set(refused(found).values()) <= {
        "put-back",
        "destination-underused",
    }


def test_a_node_that_is_to_become_empty_takes_no_pod():
    world = Cluster("n1", "n2").workload("a", ["n1", "n2", "n2"], cpu="600m")
    found = packed(world)

    assert moves(found) == {} and refused(found)["a-0"] == "destination-underused"


def test_without_thresholds_or_with_too_few_such_nodes_nothing_is_proposed():
    assert packed(cluster(), thresholds={}).refused == ()
    found = packed(cluster(), number_of_nodes=2)

    assert (found.moves, found.refused) == ((), ())


def test_every_threshold_must_hold():
    offered = {"cpu": "10", "memory": "100Gi", "pods": "50", "nvidia.com/gpu": "8"}
    world = Cluster("n1", "n2", allocatable=offered).workload("a", ["n1"] * 6)
    world.workload("b", ["n1", "n2"], gpu=4)
    asked = {"cpu": 20, "nvidia.com/gpu": 0, "absent.io/device": 0}

    assert packed(world, thresholds=asked).refused == packed(world, thresholds=asked).moves == ()
    assert list(moves(packed(world, thresholds={**asked, "nvidia.com/gpu": 50}))) == ["b-1"]

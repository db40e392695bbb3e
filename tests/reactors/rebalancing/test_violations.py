"""Pods move whose node the scheduler would refuse today, and stay where no other node would take them."""

import pytest

from bus.events.constraints import Taint
from tests.reactors.rebalancing.clusters import Cluster, moves, refused
from tests.reactors.scheduling.terms import HOST, ZONE, constrained

AFFINITY = ["RemovePodsViolatingNodeAffinity"]
TAINTS = ["RemovePodsViolatingNodeTaints"]
APART = ["RemovePodsViolatingInterPodAntiAffinity"]
SPREAD = ["RemovePodsViolatingTopologySpreadConstraint"]
NAMED = {"matchLabels": {"app": "a"}}


def cluster(**labels):
    found = Cluster()
    for name, own in labels.items():
        found.node(name, further_labels={HOST: name, **own})
    return found


def selecting(**labels):
    return constrained({"nodeSelector": labels})


def test_a_pod_leaves_a_node_that_it_does_not_select_any_more():
    world = cluster(n1={}, n2={"disk": "ssd"}, n3={})
    world.workload("a", ["n1", "n2"], **selecting(disk="ssd")).workload("b", ["n1", "n3"])
    found = world.plan(plugins=AFFINITY)

    assert (moves(found), refused(found)) == ({"a-0": ("n1", "n2")}, {})
    (one,) = found.moves
    assert (one.workload, one.plugin) == ("ReplicaSet/a", AFFINITY[0])
    assert one.reason == "node(s) didn't match Pod's node affinity/selector"


def test_a_pod_that_no_node_would_take_stays():
    world = cluster(n1={}, n2={}).workload("a", ["n1", "n2"], **selecting(disk="ssd"))
    found = world.plan(plugins=AFFINITY)

    assert (moves(found), refused(found)) == ({}, {"a-0": "fits-nowhere", "a-1": "fits-nowhere"})
    assert "0/2 nodes are available" in found.refused[0].refusal.message


@pytest.mark.parametrize(
    ("taint", "tolerations", "expected"),
    [
        (Taint("k", "v", "NoSchedule"), [], {"a-0": ("n1", "n2")}),
        (Taint("k", "v", "PreferNoSchedule"), [], {}),
        (Taint("k", "v", "NoSchedule"), [{"key": "k", "operator": "Exists"}], {}),
        # What the scheduler does not compare is no violation.
        (Taint("k", "7", "NoSchedule"), [{"key": "k", "operator": "Gt", "value": "5"}], {}),
    ],
)
def test_a_pod_leaves_a_node_whose_taint_it_does_not_tolerate(taint, tolerations, expected):
    world = Cluster("n2").node("n1", taints=(taint,))
    world.workload("a", ["n1", "n2"], **constrained({"tolerations": tolerations}))

    assert moves(world.plan(plugins=TAINTS)) == expected


def test_a_planned_move_takes_its_room_from_the_next_one():
    world = Cluster("n1", taints=(Taint("k", "v", "NoSchedule"),))
    world.node("n2", allocatable={"cpu": "3", "memory": "100Gi", "pods": "50"})
    world.workload("a", ["n1"] * 2, cpu="2")
    found = world.plan(plugins=TAINTS)

    assert (len(found.moves), list(refused(found).values())) == (1, ["fits-nowhere"])


def test_a_node_of_which_not_all_taints_are_known_loses_no_pod():
    world = Cluster("n2").node("n1", is_cut=True).workload("a", ["n1", "n2"])

    assert world.plan(plugins=TAINTS).refused == ()


def far(key=HOST):
    term = {"topologyKey": key, "labelSelector": NAMED}
    return constrained({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})  # fmt: skip


def test_of_two_pods_that_exclude_each_other_one_moves():
    world = cluster(n1={}, n2={}, n3={})
    world.workload("a", ["n1", "n1"], labels={"app": "a"}, **far())
    found = world.plan(plugins=APART)

    assert [one.source for one in found.moves] == ["n1"] and refused(found) == {}


def test_a_term_of_another_pod_moves_no_pod():
    """Tenants write terms, also against pods of other namespaces."""
    world = cluster(n1={}, n2={})
    world.workload("a", ["n1", "n2"], labels={"app": "a"}, priority=-5)
    world.workload("b", ["n1", "n1"], labels={"app": "b"}, priority=1, **far())
    found = world.plan(plugins=APART)

    # Both nodes have a pod of a, so those of b fit nowhere.
    assert moves(found) == {}
    assert refused(found) == {"b-0": "fits-nowhere", "b-1": "fits-nowhere"}
    world.node("n3", further_labels={HOST: "n3"})
    assert moves(world.plan(plugins=APART)) == dict.fromkeys(("b-0", "b-1"), ("n1", "n3"))


def spread(most=1, when="DoNotSchedule"):
    term = {"maxSkew": most, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": NAMED}
    return constrained({"topologySpreadConstraints": [term]})


SOFT = spread(when="ScheduleAnyway")


@pytest.mark.parametrize(
    ("terms", "count"), [(spread(), 2), (spread(3), 1), (spread(4), 0), (SOFT, 0)]
)
def test_a_skewed_domain_loses_as_many_pods_as_are_too_many(terms, count):
    world = cluster(n1={ZONE: "z1"}, n2={ZONE: "z2"})
    world.workload("a", ["n1"] * 4, labels={"app": "a"}, **terms)

    assert list(moves(world.plan(plugins=SPREAD)).values()) == [("n1", "n2")] * count

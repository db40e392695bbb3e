"""LowNodeLoad in a whole round: measured nodes alone, after enough rounds, where the scheduler agrees, and within both bounds."""

import pytest

from tests.reactors.rebalancing.clusters import NOW_S, Cluster, moves, refused

AT_ONCE = {"consecutive_abnormalities": 1, "low": {"cpu": 30}, "high": {"cpu": 50}}
#: Koordinator's descheduler and scheduler go by the same measurement.
AWARE = {"weights": {"LoadAware": 5}, "fields": {"LoadAware": {"thresholds": {"cpu": 0, "memory": 0}}}}  # fmt: skip
USED = {"a_0": "2", "a_1": "2", "b_0": "2", "b_1": "2"}


def loaded(*, at=NOW_S, pods=USED):
    """A node that uses 8 of 10 cores, one that uses 1, and one that is not measured."""
    world = Cluster("n1", "n2", "n3").workload("a", ["n1", "n1"]).workload("b", ["n1", "n1"])
    return world.use("n1", "8", at=at, **pods).use("n2", "1", at=at)


def balanced(world, *, pools=(AT_ONCE,), plugin=AWARE, earlier=0, **policy):
    settings = {"pools": [{"name": f"p{n}", **one} for n, one in enumerate(pools)]}
    return world.plan(
        plugins=["LowNodeLoad"], low_node_load=settings, earlier=earlier, **plugin, **policy
    )


def test_pods_leave_an_overused_node_until_it_is_within_its_bounds():
    world = loaded()
    world.node("n3", allocatable={"cpu": "0", "pods": "1"}, unschedulable=True)
    found = balanced(world)

    assert list(moves(found).values()) == [("n1", "n2")] * 2 and not found.refused
    assert [one.gain for one in found.moves] == ["n1 cpu 80 % to 60 %", "n1 cpu 60 % to 40 %"]
    assert found.moves[0].reason == "use of n1 is high: cpu 80 %, bound 50 %"
    assert found.notes == ("LowNodeLoad, pool p0: 1 nodes without a fresh measurement are left out: n3",)  # fmt: skip


def test_a_node_that_is_not_measured_is_no_destination():
    found = balanced(loaded().workload("idle", ["n2"] * 2), plugin={})

    assert moves(found) == {}
    assert set(refused(found).values()) == {"destination-overused"}
    assert "n3, which is not underused" in found.refused[0].refusal.message


@pytest.mark.parametrize("at", [NOW_S - 180, 0])
def test_without_a_fresh_measurement_nothing_is_proposed_and_that_is_said(at):
    found = balanced(loaded(at=at))

    assert (found.moves, found.refused) == ((), ())
    assert found.notes[0].startswith(
        "LowNodeLoad, pool p0: no node has a measurement of the last 180 s"
    )


def test_a_pod_that_is_not_measured_stays():
    found = balanced(loaded(pods={"a_0": "2"}))

    assert set(moves(found)) == {"a-0"}
    assert set(refused(found).values()) == {"unmeasured-pod"}


def test_only_enough_rounds_in_a_row_move_pods():
    pool = {**AT_ONCE, "consecutive_abnormalities": 2}
    found = balanced(loaded(), pools=[pool], earlier=1)
    assert found.moves == ()
    assert "LowNodeLoad, pool p0: overused for fewer than 3 rounds in a row: n1" in found.notes

    assert len(balanced(loaded(), pools=[pool], earlier=2).moves) == 2


def test_what_the_scheduler_would_put_back_stays():
    """A scheduler that goes by requests alone would choose the overused node again."""
    world = loaded().node("n3", unschedulable=True).workload("idle", ["n2"] * 6)
    found = balanced(world, plugin={})

    assert moves(found) == {} and "put-back" in refused(found).values()


def test_a_move_that_would_overuse_its_new_node_is_refused():
    world = Cluster("n1", "n2").workload("a", ["n1", "n1"]).workload("b", ["n1", "n1"])
    world.use("n1", "8", a_0="4", a_1="4", b_0="1", b_1="1").use("n2", "2")
    found = balanced(world)

    assert all(name.startswith("b") for name in moves(found))
    assert {refused(found)[name] for name in ("a-0", "a-1")} == {"destination-overused"}


def test_pods_that_use_more_go_first_among_equals_and_less_important_ones_before_them():
    world = Cluster("n1", "n2").workload("a", ["n1", "n1"]).workload("b", ["n1", "n1"], priority=-1)
    world.use("n1", "6", a_0="2", a_1="3", b_0="500m", b_1="500m").use("n2", "0")
    found = balanced(world, most_moves=3)

    assert [one.pod.name for one in found.moves] == ["b-0", "b-1"]
    world.use("n1", "7", a_0="1", a_1="3", b_0="1", b_1="1")
    assert [one.pod.name for one in balanced(world).moves] == ["b-0", "b-1"]
    world.use("n1", "8", a_0="1", a_1="2", b_0="1", b_1="1")
    assert [one.pod.name for one in balanced(world).moves] == ["b-0", "b-1", "a-1"]


def test_pools_are_balanced_by_themselves():
    world = loaded()
    for name, pool in (("n1", "hot"), ("n2", "cold"), ("n3", "cold")):
        world.node(name, allocatable={"cpu": "10", "memory": "100Gi", "pods": "50"}, labels={"pool": pool})  # fmt: skip
    pools = [{**AT_ONCE, "node_selector": {"pool": pool}} for pool in ("hot", "cold")]
    found = balanced(world, pools=pools)

    assert (found.moves, found.refused) == ((), ())
    assert "LowNodeLoad, pool p0: no node is underused" in found.notes
    assert "LowNodeLoad, pool p1: no node is overused" in found.notes


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        ({"low": {"cpu": 50}, "high": {"cpu": 40}}, "low is at most high"),
        ({"low": {"cpu": 50}, "high": {"memory": 60}}, "low and high name the same resources"),
        ({"low": {"gpu": 50}}, r"\^\(cpu\|memory\|pods\)"),
    ],
)
def test_a_pool_that_means_nothing_is_refused(pool, told):
    with pytest.raises(ValueError, match=told):
        balanced(loaded(), pools=[pool])

"""Columns that followed a cluster are those of a cluster that is read anew."""

import msgspec
import numpy as np
import pytest

from bus.events.constraints import Taint
from reactors.scheduling.columns.table import SPARE, Columns
from tests import factories as f
from tests.reactors.scheduling.terms import constrained_world, placed
from tests.reactors.scheduling.worlds import ROOMY, World, changed, random_world, shown


@pytest.mark.parametrize("seed", range(30))
def test_following_is_reading_anew(seed):
    world, random = random_world(seed)
    columns = world.columns
    for _ in range(25):
        changed(world, random)

        assert shown(Columns(world.state)) == shown(columns)


@pytest.mark.parametrize("seed", range(25))
def test_following_pods_with_terms_is_reading_anew(seed):
    world, random = constrained_world(seed)
    columns = world.columns
    for step in range(15):
        names = world.columns.names
        if random.random() < 0.3:
            world.node(f"new{step}", uid=f"{random.randrange(9)}-{step}")
        elif random.random() < 0.3 and len(names) > 1:
            row = random.randrange(len(names))
            uid = columns.nodes[row].uid
            world.see(f.node_vanished(names[row], 10**6, 10**6, uid=uid))
        else:
            world.pod(f"held{random.randrange(14)}", **placed(random, random.choice(names)))

        assert shown(Columns(world.state)) == shown(columns)


def test_rows_are_in_the_order_of_uids():
    world = World().node("z", uid="1").node("a", uid="2").node("m", uid="0")

    assert world.columns.names == ["m", "z", "a"]


def test_only_touched_rows_count_as_changed():
    world = World().node("a").node("b")
    columns = world.columns
    before = columns.version
    world.pod("p", "b")

    assert np.flatnonzero(columns.changed_at > before).tolist() == [1]


def test_a_row_is_not_changed_by_another_phase_of_its_pod():
    world = World().node("a")
    columns = world.columns
    world.pod("p", "a", scheduled=1, phase="Pending")
    before = columns.version
    running = world.pod("p", "a", scheduled=1, phase="Running")

    assert not np.any(columns.changed_at > before)
    assert [running] == [one.pod for one in columns.placed_on(0)]
    world.pod("p", "a", scheduled=1, phase="Succeeded")
    assert np.all(columns.changed_at > before)


@pytest.mark.parametrize(
    "changes",
    [{"node": "b"}, {"cpu": "2"}, {"priority": 9}, {"labels": {"app": "x"}}, {"annotations": {"a": "b"}},
     {"scheduled": 9}, {"owner": f.owner("o", "Job")}, {"deletion": 9}, {"phase": "Failed"},
     {"constraints": msgspec.Raw(b'{"hostPorts":[{"hostPort":80}]}')}],
    ids=lambda one: next(iter(one)),
)  # fmt: skip
def test_a_pod_on_a_node_counts_anew_when_it_is_changed(changes):
    world, fields = World().node("a").node("b"), {"node": "a", "cpu": "1", "scheduled": 1}
    columns = world.columns
    world.pod("p", **fields)
    before = columns.version
    pod = world.pod("p", **fields | changes)

    assert np.any(columns.changed_at > before)
    assert shown(Columns(world.state)) == shown(columns)
    assert [] == [one for row in (0, 1) for one in columns.placed_on(row) if one.pod is not pod]


def test_a_pod_placed_ahead_counts_until_it_is_taken_back():
    world = World().node("a")
    columns, pod = world.columns, world.pod("p", cpu="3")
    empty = shown(columns)
    columns.place(pod, "a")
    held = columns.resources.free[0, 0]
    columns.take_back("p")

    assert (held, shown(columns)) == (13_000, empty)


def test_a_pod_placed_ahead_is_counted_once_when_it_is_seen_there():
    world = World().node("a").node("b")
    columns, pod = world.columns, world.pod("p", cpu="3")
    columns.place(pod, "a")
    world.pod("p", None, cpu="3")
    waiting = columns.resources.free[:, 0].tolist()
    world.pod("p", "b", cpu="3")

    assert waiting == [13_000, 16_000]
    assert columns.resources.free[:, 0].tolist() == [16_000, 13_000]


@pytest.mark.parametrize("terms", ["", '{"cpus":{"qos":"LSR"}}'])
def test_a_bind_that_is_seen_changes_the_row_of_a_pod_that_says_something_of_cpus(terms):
    """What is kept of CPUs for a pod that is still to be bound is not kept for it afterwards."""
    world = World().node("a")
    fields = {"cpu": "1", "created": 1, "scheduled": 1}
    if terms:
        fields["constraints"] = msgspec.Raw(terms.encode())
    columns, pod = world.columns, world.pod("p", None, **fields)
    columns.place(pod, "a")
    before = columns.version
    world.pod("p", "a", **fields)

    assert np.any(columns.changed_at > before) == bool(terms)


def test_a_pod_placed_ahead_survives_a_node_that_comes():
    world = World().node("b")
    columns = world.columns
    columns.place(world.pod("p", cpu="3"), "b")
    world.node("a")

    assert dict(zip(columns.names, columns.resources.free[:, 0].tolist(), strict=True)) == {
        "a": 16_000,
        "b": 13_000,
    }


@pytest.mark.parametrize(
    ("pods", "idle"),
    [
        ([], [1000, 1000, 1000]),
        ([{"gpu": 2}], [0, 0, 1000]),
        ([{"share": "30"}, {"share": "50"}], [200, 1000, 1000]),
        ([{"share": "80"}, {"share": "50"}, {"gpu": 1}], [200, 500, 0]),
        ([{"share": "200"}], [0, 0, 1000]),
    ],
)
def test_cards_are_filled_in_the_order_in_which_pods_began(pods, idle):
    world = World().node("a", allocatable={"cpu": "8", "nvidia.com/gpu": "3"})
    for number, one in enumerate(pods):
        if "share" in one:
            requests = {"koordinator.sh/gpu-core": one["share"]}
            fields = {"resources": f.requesting(requests)}
        else:
            fields = one
        world.pod(f"p{number}", "a", created=number, **fields)

    assert world.columns.cards.each[0].tolist() == idle + [-1] * 5


def test_a_decision_names_the_cards_of_a_pod():
    world = World().node("a", allocatable={"cpu": "8", "nvidia.com/gpu": "3"})
    world.columns.place(world.pod("p", gpu=1), "a", (2,))
    world.columns.place(world.pod("q", gpu=1), "a")

    assert world.columns.cards.each[0, :3].tolist() == [0, 1000, 0]


def test_a_resource_that_no_node_offers_has_no_column():
    world = World().node("a")
    known = dict(world.columns.resources.names)
    for number in range(50):
        requests = {f"example.com/invented-{number}": "1"}
        world.pod(f"p{number}", "a" if number % 2 else None, resources=f.requesting(requests))

    assert world.columns.resources.names == known


def test_what_pods_hold_of_a_resource_counts_when_a_node_offers_it():
    world = World().node("a")
    columns = world.columns
    world.pod("held", "a", resources=f.requesting({"example.com/disk": "3"}))
    world.node("a", allocatable={**ROOMY, "example.com/disk": "5"})

    assert columns.resources.free[0, columns.resources.names["example.com/disk"]] == 2
    assert shown(Columns(world.state)) == shown(columns)


def test_what_nodes_say_no_more_is_forgotten():
    world = World().node("a").node("b", labels={"zone": "z1"})
    columns = world.columns
    for number in range(3 * SPARE):
        world.node(
            "a",
            labels={"zone": f"z{number}", f"l{number}": "x"},
            taints=(Taint(f"t{number}", "", "NoSchedule"),),
            allocatable={**ROOMY, f"example.com/r{number}": "1"},
        )
        world.pod("p", "a" if number % 2 else "b", cpu="2")
    kept = sum(map(len, (columns.resources.names, columns.labels.texts, columns.labels.taints)))

    assert kept < 2 * SPARE
    assert columns.resources.free.shape[1] < 2 * SPARE
    assert shown(Columns(world.state)) == shown(columns)

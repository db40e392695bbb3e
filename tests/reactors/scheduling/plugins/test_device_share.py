"""DeviceShare: parts of cards are given out once; the numeric cases have its arithmetic."""

import itertools
import random

import pytest

from reactors.scheduling.plugins.device_share import ILLEGAL, REASON, DeviceShare
from reactors.scheduling.queueing.messages import DEVICES_TAKEN
from tests import factories as f
from tests.reactors.scheduling.plugins.sharing import GIB, K, asking, cards, given
from tests.reactors.scheduling.worlds import World, reasons, scores
from tests.thorough import tries


def test_shares_are_packed_or_spread_and_never_more_than_a_card():
    found = []
    for strategy in ("MostAllocated", "LeastAllocated"):
        world, plugin = World().node("a", allocatable=cards(2)), DeviceShare(strategy=strategy)
        found.append([given(world, f"p{n}", plugin, **asking(gpu=40)) for n in range(5)])

    assert found == [[(0,), (0,), (1,), (1,), ()], [(0,), (1,), (0,), (1,), ()]]


def test_memory_and_core_both_count():
    world = World().node("a", allocatable=cards(1))
    took = [
        given(world, "a", **asking(gpu_core=10, gpu_memory=12 * GIB)),
        given(world, "b", **asking(gpu_core=10, gpu_memory_ratio=30)),
        given(world, "c", **asking(gpu_core=90, gpu_memory_ratio=25)),
        given(world, "d", **asking(gpu_memory=1)),
    ]

    assert took == [(0,), (), (0,), ()]
    cycle = world.cycle("e", **asking(gpu=1))
    assert reasons(DeviceShare(), cycle) == {"a": {REASON.format("gpu")}}
    assert DeviceShare().remedy(cycle, 0) == "free gpu devices of node a"


def test_cards_and_other_devices_are_numbered_apart():
    world = World().node("a", allocatable=cards(2, **{f"{K}rdma": "200", f"{K}fpga": "100"}))

    assert given(world, "p", **asking(gpu=200, rdma=50, fpga=100)) == (0, 1, 1_000, 2_000)


def test_a_request_that_means_nothing_is_refused():
    found = DeviceShare().pre_filter(World().node("a").cycle(**asking(gpu_core=150, gpu_memory=1)))

    assert found is not None and found.reason == ILLEGAL.format("gpu")


@pytest.mark.parametrize(
    ("policy", "count", "expected"),
    [("Honor", 2, (6, 7)), ("Honor", 3, ()), ("Prefer", 3, (5, 6, 7)), ("Honor", 4, (0, 1, 2, 3))],
)
def test_whole_cards_of_a_board_are_a_group(policy, count, expected):
    labels = {"node.koordinator.sh/gpu-model": "H100"}
    labels["node.koordinator.sh/gpu-partition-policy"] = policy
    world = World().node("a", allocatable=cards(8), further_labels=labels)
    world.columns.place(world.pod("held", **asking(gpu=10)), "a", (4,))

    assert given(world, "p", **asking(gpu=100 * count)) == expected


def test_devices_that_another_pod_got_meanwhile_are_not_reserved():
    world, plugin = World().node("a", allocatable=cards(1)), DeviceShare()
    cycle = world.cycle("p", **asking(gpu=60))
    world.columns.place(cycle.pod, "a", (0,))
    alone = plugin.reserve(cycle, 0)
    world.columns.place(world.pod("other", **asking(gpu=60)), "a", (0,))

    assert (alone, plugin.reserve(cycle, 0)) == ("", DEVICES_TAKEN)


def test_a_fuller_node_is_better_where_it_packs():
    world = World().node("a", allocatable=cards(1)).node("b", allocatable=cards(1))
    given(world, "held", **asking(gpu=50))
    found = [
        scores(DeviceShare(strategy=one), world.cycle(**asking(gpu=50)))
        for one in ("MostAllocated", "LeastAllocated")
    ]

    assert found == [{"a": 100, "b": 33}, {"a": 33, "b": 100}]


def fits(held, wanted, count):
    """By brute force: whether some ``count`` of the cards have the room."""
    share, core = wanted
    room = [all((100 - sum(s for s, _ in one) >= share, 100 - sum(c for _, c in one) >= core)) for one in held]  # fmt: skip
    return any(all(room[n] for n in some) for some in itertools.combinations(range(len(held)), count))  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(8, 80)))
def test_random_pods_fit_as_by_brute_force_and_no_card_is_given_twice(seed):
    rng, world, plugin = random.Random(seed), World(), DeviceShare()
    sizes, there = {}, {}
    for step in range(50):
        if not sizes or rng.random() < 0.08:
            name = f"n{step}"
            sizes[name] = rng.randrange(1, 5)
            world.node(name, allocatable=cards(sizes[name], gib=100))
        elif rng.random() < 0.06:
            name = rng.choice(sorted(sizes))
            world.see(f.node_vanished(name, 10**6 + step, 10**6 + step, uid=f"uid-{name}"))
            del sizes[name]
            there = {uid: one for uid, one in there.items() if one[0] != name}
        elif there and rng.random() < 0.3:
            # Gone, or its bind was refused.
            uid = rng.choice(sorted(there))
            world.gone(uid) if rng.random() < 0.5 else world.columns.take_back(uid)
            del there[uid]
        elif sizes:
            there |= placed(world, plugin, rng, f"p{step}", sizes, there)
        for held in per_node(sizes, there).values():
            assert all(sum(s for s, _ in one) <= 100 >= sum(c for _, c in one) for one in held)


def per_node(sizes, there):
    held = {name: [[] for _ in range(size)] for name, size in sizes.items()}
    for name, minors, part in there.values():
        for minor in minors:
            held[name][minor].append(part)
    return held


def placed(world, plugin, rng, uid, sizes, there):
    """A pod comes and is tried; where it lies, if it does."""
    count, part = rng.choice((1, 1, 2)), (rng.randrange(1, 101), rng.randrange(1, 101))
    ratio, core = (count * one for one in part)
    fields = asking(**{"gpu.shared": count, "gpu_memory_ratio": ratio, "gpu_core": core})
    cycle = world.cycle(uid, **fields)
    refused = reasons(plugin, cycle)
    expected = {
        name for name, held in per_node(sizes, there).items() if not fits(held, part, count)
    }
    assert set(refused) == expected
    free = sorted(sizes.keys() - expected)
    if not free:
        return {}
    name = rng.choice(free)
    minors = plugin.cards(cycle, world.columns.row_of[name])
    assert len(set(minors)) == count
    world.columns.place(cycle.pod, name, minors)
    assert plugin.reserve(cycle, world.columns.row_of[name]) == ""
    return {uid: (name, minors, part)}


@pytest.mark.parametrize(
    "foreign",
    [asking(gpu=100), asking(gpu=150), {"resources": f.requesting({"nvidia.com/gpu": "1", f"{K}gpu-memory": "1"})}],
    ids=["does not fit", "means nothing", "means two things"],
)  # fmt: skip
def test_a_pod_that_is_there_without_named_cards_holds_some(foreign):
    world = World().node("a", allocatable=cards(1))
    given(world, "share", **asking(gpu=10))
    world.pod("foreign", "a", **foreign)

    assert given(world, "p", **asking(gpu=50)) == ()


def test_shares_of_nothing_are_refused():
    wanted = f.requesting({f"{K}gpu.shared": "8", f"{K}gpu-memory": "1"})
    found = DeviceShare().pre_filter(World().node("a").cycle(resources=wanted))

    assert found is not None and found.reason == ILLEGAL.format("gpu")

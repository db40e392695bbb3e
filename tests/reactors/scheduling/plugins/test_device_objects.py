"""DeviceShare by Device objects: cards that differ, that fall ill, and that are near each other."""

from random import Random

import numpy as np
import pytest

from bus.events.devices import NodeDevicesVanished
from reactors.scheduling.devices.boards import kept, parts_of
from reactors.scheduling.devices.rules import score, summed
from reactors.scheduling.plugins.device_share import DeviceShare
from reactors.scheduling.queueing.hints import Hint, hints_of
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.scheduling.plugins.sharing import GIB, K, asking, cards, found, given, gpu, nic
from tests.reactors.scheduling.worlds import World, reasons
from tests.thorough import tries

STRATEGIES = ("LeastAllocated", "MostAllocated")


def test_cards_have_their_own_numbers_and_memory():
    world = found(World().node("a", allocatable=cards(2)), "a", gpu(2, gib=8), gpu(5, gib=32))
    took = [given(world, f"p{n}", **asking(gpu_core=1, gpu_memory=size * GIB)) for n, size in enumerate((20, 20, 8))]  # fmt: skip

    assert took == [(5,), (), (2,)]


def test_a_card_that_is_not_healthy_is_not_given_and_one_that_falls_ill_frees_nothing():
    world, plugin = World().node("a", allocatable=cards(2)), DeviceShare()
    found(world, "a", gpu(0, is_healthy=False), gpu(1))
    cycle = world.cycle("p", **asking(gpu=60))
    took = given(world, "p", **asking(gpu=60))
    before = plugin.reserve(cycle, 0)
    found(world, "a", gpu(0, is_healthy=False), gpu(1, is_healthy=False), version=2)
    ill = plugin.reserve(cycle, 0)
    found(world, "a", gpu(0), gpu(1), version=3)

    assert (took, before, bool(ill), plugin.reserve(cycle, 0)) == ((1,), "", True, "")
    assert [given(world, f"q{n}", **asking(gpu=60)) for n in range(2)] == [(0,), ()]


def test_what_nodes_offer_counts_where_no_agent_says_more():
    world = found(World().node("a", allocatable=cards(2)), "a", gpu(0, is_healthy=False))
    none = given(world, "p", **asking(gpu=100))
    gone = NodeDevicesVanished(uid="d-a", name="a", resource_version="2")
    world.see(f.said(gone, key="a", id="device/a/gone", at=2))

    assert (none, given(world, "p", **asking(gpu=200))) == ((), (0, 1))


def test_whole_cards_are_near_each_other_and_rdma_devices_at_their_switch():
    world = World().node("a", allocatable=cards(4, **{f"{K}rdma": "300"}))
    places = [(0, "s0"), (1, "s1"), (0, "s0"), (1, "s1")]
    cards_there = [gpu(n, numa=numa, switch=switch) for n, (numa, switch) in enumerate(places)]
    found(world, "a", *cards_there, nic(0), nic(1, "s0"), nic(2, "s1"))
    world.columns.place(world.pod("held", **asking(gpu=100)), "a", (0,))

    assert given(world, "p", **asking(gpu=200, rdma=100)) == (1, 3, 1_002)
    assert given(world, "q", **asking(gpu=100, rdma=100)) == (2, 1_001)
    assert given(world, "r", **asking(rdma=100)) == (1_000,)


def test_a_table_of_the_object_says_which_cards_are_given_together():
    honors = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
    world = World().node("a", allocatable=cards(4), further_labels=honors)
    found(world, "a", *(gpu(n) for n in range(4)), partitions='{"2":[{"minors":[0,3]},{"minors":[3,1]}]}')  # fmt: skip
    world.columns.place(world.pod("held", **asking(gpu=10)), "a", (0,))

    assert given(world, "p", **asking(gpu=200)) == (1, 3)
    assert reasons(DeviceShare(), world.cycle("q", **asking(gpu=200))).keys() == {"a"}


@pytest.mark.parametrize("prefix", [K, "kubernetes.io/"])
def test_nodes_may_offer_devices_by_their_older_names(prefix):
    amounts = {"gpu-core": "100", "gpu-memory": "16Gi", "rdma": "100", "fpga": "100"}
    offered = {"cpu": "8"} | {prefix + name: amount for name, amount in amounts.items()}
    world = World().node("a", allocatable=offered)

    assert given(world, "p", **asking(gpu=50, rdma=100, fpga=50)) == (0, 1_000, 2_000)


def test_what_devices_say_lets_pods_try_again_that_found_none():
    world = World().node("a", allocatable=cards(1))
    heard = []
    world.listeners.append(lambda changes: heard.extend(hint for one in changes for hint in hints_of(one)))  # fmt: skip
    found(world, "a", gpu(0))

    assert heard == [Hint.NODE] and Hint.NODE in DeviceShare.helped_by


def test_device_objects_are_followed_where_a_profile_reads_them():
    def follows(**weights):
        return SchedulingPolicy(profiles=(SchedulingProfile(weights=weights),)).follows

    assert follows(DeviceShare=1, LoadAware=0) == {"Device"}
    assert follows(LoadAware=2) == {"NodeMetric"} and follows(DeviceShare=0) == frozenset()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(12, 120)))
def test_nodes_have_the_room_where_cards_are_found_and_score_as_their_cards_do(seed):
    """By brute force over the cards of each node: some have other memory, some are ill, some boards give groups alone."""
    dice, world, plugin = Random(seed), World(), DeviceShare(strategy=Random(seed).choice(STRATEGIES))  # fmt: skip
    for number in range(6):
        labels = {"node.koordinator.sh/gpu-partition-policy": "Honor"} if dice.random() < 0.3 else {}  # fmt: skip
        world.node(f"n{number}", allocatable=cards(2), further_labels=labels)
        sizes = [dice.choice((8, 15, 80)) for _ in range(dice.randrange(11))]
        there = [gpu(n, gib=size, is_healthy=dice.random() < 0.8) for n, size in enumerate(sizes)]
        nics = [nic(n, is_healthy=dice.random() < 0.8) for n in range(dice.randrange(3))]
        table = dice.choice(("", '{"2":[{"minors":[0,1]},{"minors":[2,3]}],"1":[{"minors":[1]}]}'))
        found(world, f"n{number}", *there, *nics, version=number + 1, partitions=table)
    for step in range(40):
        wanted = dice.choice((
            {"gpu": dice.choice((30, 100, 200))}, {"gpu_memory": dice.randrange(1, 16 * GIB)},
            {"gpu_core": 10, "gpu_memory": 7 * GIB + dice.randrange(99)},
            {"gpu_core": 40, "gpu_memory_ratio": dice.randrange(1, 100)},
            {"gpu": 50, "rdma": dice.choice((30, 100, 200))}, {"gpu.shared": 2, "gpu_memory_ratio": 60},
        ))  # fmt: skip
        cycle = world.cycle(f"p{step}", **asking(**wanted))
        refused, kinds = reasons(plugin, cycle), parts_of(cycle.pod, "now")
        for row, name in enumerate(world.columns.names):
            free = kept(world.columns, row).devices
            sums = {
                kind: [summed(getattr(card, at) for card in free[kind]) for at in ("total", "free")]
                for kind in kinds
            }
            numbers = plugin.cards(cycle, row)
            is_found = len(numbers) == sum(part.count for part in kinds.values())
            assert (name in refused) is not is_found
            assert plugin.score(cycle, np.array([row]))[0] == sum(
                score(plugin.strategy, part.amounts, *sums[kind]) for kind, part in kinds.items()
            )
        fits = [row for row, name in enumerate(world.columns.names) if name not in refused]
        if fits and dice.random() < 0.8:
            row = dice.choice(fits)
            world.columns.place(cycle.pod, world.columns.names[row], plugin.cards(cycle, row))
            assert plugin.reserve(cycle, row) == ""

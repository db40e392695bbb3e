"""DeviceShare by what pods want of their devices: near each other, in a group, of a kind, so many of them."""

import json
from random import Random

import msgspec
import pytest

from bus.events.constraints import DeviceHint, DeviceTerms, LabelSelector, PodConstraints
from bus.events.devices import ALLOCATED, FIRST, FUNCTIONS, device_name, function_number
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.devices.boards import kept, parts_of
from reactors.scheduling.framework.contract import Code
from reactors.scheduling.plugins.device_share import PLACE, UNREADABLE, DeviceShare
from tests.reactors.scheduling.plugins.sharing import K, asking, cards, found, given, gpu, nic
from tests.reactors.scheduling.worlds import World, reasons
from tests.thorough import tries

JOINT = DeviceTerms(joint=("gpu", "rdma"))
SAME = DeviceTerms(joint=("gpu", "rdma"), same_switch=True)
WHOLE_ONES = DeviceTerms({"rdma": DeviceHint(strategy="RequestsAsCount", exclusive="DeviceLevel")})


def wanting(terms, **requests):
    """What a pod requests, and wants beside it."""
    said = msgspec.json.encode(PodConstraints(devices=terms))
    return asking(**requests) | {"constraints": msgspec.Raw(said)}


def hinting(kind="rdma", **fields):
    return DeviceTerms(hints={kind: DeviceHint(**fields)})


def server(nics="s0 s1", **more):
    """A node with eight cards at four switches of two NUMA nodes, and RDMA devices at these switches."""
    world = World().node("a", allocatable=cards(8, **{f"{K}rdma": "800"}))
    there = [gpu(n, numa=n // 4, switch=f"s{n // 2}") for n in range(8)]
    return found(world, "a", *there, *(nic(n, at) for n, at in enumerate(nics.split())), **more)


def held(world, *devices, uid="held", **fields):
    world.columns.place(world.pod(uid, **fields), "a", devices)


def test_cards_get_an_rdma_device_at_each_of_their_switches():
    world = server("s3 s1 s0 s2")

    assert given(world, "p", **wanting(JOINT, gpu=400, rdma=100)) == (0, 1, 2, 3, 1_001, 1_002)
    assert given(world, "q", **asking(gpu=400, rdma=100)) == (4, 5, 6, 7, 1_000)


def test_where_a_switch_has_none_the_others_do_unless_all_must():
    world = server("s1 s2")

    assert given(world, "p", **wanting(JOINT, gpu=800, rdma=100)) == (*range(8), 1_000, 1_001)
    world = server("s1 s2")
    assert given(world, "q", **wanting(SAME, gpu=800, rdma=100)) == ()
    assert reasons(DeviceShare(), world.cycle("q", **wanting(SAME, gpu=800, rdma=100))) == {
        "a": {PLACE.format("gpu"), PLACE.format("rdma")}
    }


def test_cards_go_where_rdma_devices_are_left_at_their_switches():
    world = server("s0 s1 s2 s3")
    held(world, 1_000, **asking(rdma=100))
    held(world, 1_001, uid="more", **asking(rdma=60))

    assert given(world, "p", **wanting(SAME, gpu=200, rdma=50)) == (4, 5, 1_002)
    assert given(world, "q", **wanting(SAME, gpu=200, rdma=50)) == (6, 7, 1_003)
    assert given(world, "r", **wanting(SAME, gpu=200, rdma=50)) == ()
    assert given(world, "s", **wanting(SAME, gpu=200, rdma=40)) == (2, 3, 1_001)


def test_cards_go_to_a_switch_with_as_many_rdma_devices_as_the_pod_wants():
    assert given(server("s0 s2 s2"), "p", **wanting(SAME, gpu=100, rdma=200)) == (4, 1_001, 1_002)


def test_a_pod_wants_its_cards_within_one_numa_node_or_switch():
    numa, switch = (hinting("gpu", scope=scope) for scope in ("NUMANode", "PCIe"))
    world = server()
    held(world, 0, **asking(gpu=100))

    assert given(world, "p", **wanting(numa, gpu=400)) == (4, 5, 6, 7)
    assert given(world, "q", **wanting(numa, gpu=400)) == ()
    assert given(world, "r", **wanting(switch, gpu=200)) == (2, 3)
    assert given(world, "s", **wanting(switch, gpu=200)) == ()
    assert given(world, "t", **wanting(hinting("gpu", scope="Device"), gpu=100)) == (1,)
    bare = World().node("b", allocatable=cards(8))
    assert given(bare, "p", **wanting(numa, gpu=200)) == ()


def test_a_pod_wants_a_group_of_the_board_and_the_best_one_or_any():
    far = {"minors": [0, 4], "allocationScore": 1, "ringBusBandwidth": "100G"}
    near = {"minors": [2, 3], "allocationScore": 9, "ringBusBandwidth": "50G"}
    groups = json.dumps({"2": [far, near]})
    best, any = (DeviceTerms(partition=one) for one in ("Restricted", "BestEffort"))

    def first(terms, took=()):
        world = server(partitions=groups)
        if took:
            held(world, *took, **asking(gpu=100 * len(took)))
        return given(world, "p", **wanting(terms, gpu=200))

    assert first(None) == first(best) == first(any) == (2, 3)
    assert (first(best, (2,)), first(any, (2,)), first(any, (0, 2))) == ((), (0, 4), ())
    assert len(first(None, (0, 2))) == 2, "who wants no group takes other cards where none is idle"
    fast = msgspec.structs.replace(any, bandwidth="100G")
    assert (first(fast), first(msgspec.structs.replace(fast, partition="Restricted"))) == (
        (0, 4),
        (),
    )
    assert first(hinting("gpu", scope="NUMANode"), (2,)) != (0, 4), "both hold"
    assert given(World().node("b", allocatable=cards(8)), "p", **wanting(any, gpu=200)) == ()


def test_a_pod_wants_devices_with_labels():
    world = World().node("a", allocatable=cards(2))
    found(world, "a", gpu(0), gpu(1, labels={"link": "fast"}))
    terms = hinting("gpu", selector=LabelSelector({"link": "fast"}))

    assert given(world, "p", **wanting(terms, gpu=50)) == (1,)
    assert given(world, "q", **wanting(terms, gpu=60)) == ()


def test_a_request_for_each_device_or_for_so_many():
    every, many, whole = (
        hinting(strategy="ApplyForAll"),
        hinting(strategy="RequestsAsCount"),
        hinting(strategy="RequestsAsCount", exclusive="DeviceLevel"),
    )
    world = server("s0 s1 s2")

    assert given(world, "p", **wanting(every, rdma=30)) == (1_000, 1_001, 1_002)
    assert given(world, "q", **wanting(many, rdma=2)) == (1_000, 1_001)
    assert [card.free[f"{K}rdma"] for card in kept(world.columns, 0).devices["rdma"]] == [
        69,
        69,
        70,
    ]
    assert given(world, "r", **wanting(whole, rdma=1)) == ()
    assert given(world, "s", **wanting(every, rdma=70)) == ()
    assert given(server("s0 s1"), "t", **wanting(whole, rdma=2)) == (1_000, 1_001)


def test_a_pod_wants_devices_at_switches_where_nobody_has_one():
    world = server("s0 s0 s1")
    held(world, 1_000, **asking(rdma=10))

    assert given(world, "p", **wanting(hinting(exclusive="PCIeLevel"), rdma=10)) == (1_002,)
    assert given(world, "q", **wanting(hinting(exclusive="PCIeLevel"), rdma=10)) == ()


def test_annotations_that_nobody_can_read_are_said_and_the_pod_goes_nowhere():
    plugin, terms = DeviceShare(), DeviceTerms(unreadable=("x",))
    status = plugin.pre_filter(server().cycle("p", **wanting(terms, gpu=100)))

    assert (status.code, status.reason) == (Code.UNRESOLVABLE, UNREADABLE.format("x"))
    assert plugin.pre_filter(server().cycle("p", **wanting(terms, cpu=1))).code is Code.SKIP


ANY = hinting(functions=LabelSelector())


def with_functions():
    """Two RDMA devices, of which the first has two virtual functions and the other one with a label."""
    world = World().node("a", allocatable=cards(1, **{f"{K}rdma": "200"}))
    first = nic(0, functions=("0000:09:00.2", "0000:09:00.1", "no address"))
    return found(
        world, "a", first,
        nic(1, functions=("0000:0a:1f.7",), function_labels=((1, {"type": "fast"}),)), nic(2),
    )  # fmt: skip


def functions_of(devices):
    return [device_name(one) for one in devices if one >= FUNCTIONS]


def test_each_pod_gets_virtual_functions_of_its_own():
    world, plugin = with_functions(), DeviceShare()
    took = [given(world, f"p{n}", **wanting(ANY, rdma=10)) for n in range(4)]
    gave = [functions_of(devices) for devices in took]

    assert (
        sorted(gave) == [[], ["0000:09:00.1"], ["0000:09:00.2"], ["0000:0a:1f.7"]] and not gave[3]
    )
    assert reasons(plugin, world.cycle("q", **wanting(ANY, rdma=10))).keys() == {"a"}
    fast = hinting(functions=LabelSelector({"type": "fast"}))
    cycle = with_functions().cycle("p", **wanting(fast, rdma=10))
    devices = plugin.cards(cycle, 0)
    assert (devices[:1], functions_of(devices)) == ((1_001,), ["0000:0a:1f.7"])
    assert json.loads(plugin.annotations(cycle, 0, devices)[ALLOCATED])["rdma"] == [
        {"minor": 1, "resources": {f"{K}rdma": "10"}, "extension": {"vfs": [{"busID": "0000:0a:1f.7"}]}}
    ]  # fmt: skip


def test_virtual_functions_that_others_have_are_not_given():
    world, plugin = with_functions(), DeviceShare()
    said = {"rdma": [{"minor": 0, "extension": {"vfs": [{"busID": "0000:09:00.1"}]}}]}
    world.pod("theirs", "a", card_texts={ALLOCATED: json.dumps(said)}, **asking(rdma=10))
    cycle = world.cycle("p", **wanting(ANY, rdma=100))
    devices = plugin.cards(cycle, 0)
    world.columns.place(cycle.pod, "a", devices)

    assert functions_of(devices) == ["0000:0a:1f.7"] and not plugin.reserve(cycle, 0)
    world.columns.place(world.pod("twice", **asking(rdma=10)), "a", (1_001, *devices[1:]))
    assert plugin.reserve(cycle, 0), "decided twice"


@pytest.mark.parametrize("address", ["0000:09:00.1", "ffff:ff:1f.7"])
def test_an_address_is_a_number_and_back(address):
    assert device_name(function_number(address)) == address
    assert function_number(address.upper() + "0") is None and device_name(1_000) == "1000"


def test_a_node_without_a_device_that_will_do_is_refused():
    """None with a virtual function, say: a kind of devices of which nothing is left."""
    same = msgspec.structs.replace(ANY, joint=("gpu", "rdma"), same_switch=True)
    cycle = server("s0 s1").cycle("p", **wanting(same, gpu=100, rdma=10))

    assert reasons(DeviceShare(), cycle).keys() == {"a"} and DeviceShare().cards(cycle, 0) == ()


@pytest.mark.timeout(20)
def test_who_wants_more_devices_than_there_are_anywhere_holds_nobody_up():
    """A tenant writes the number: a look that took as many steps would never end."""
    many = DeviceTerms(
        {"rdma": DeviceHint(strategy="RequestsAsCount")}, ("gpu", "rdma"), same_switch=True
    )
    plugin, world = DeviceShare(), server("s0 s1")
    cycle = world.cycle("p", **wanting(many, gpu=100, rdma=10**12))

    assert reasons(plugin, cycle).keys() == {"a"} and len(plugin.cards(cycle, 0)) < 2
    assert "rdma" in plugin.remedy(cycle, 0)


def test_koordinator_1_0_knows_no_terms():
    plugin = DeviceShare(rules="v1.0")
    cycle = server("s0").cycle("p", **wanting(SAME, gpu=800, rdma=100))

    assert plugin.pre_filter(cycle) is None and not reasons(plugin, cycle)


@pytest.mark.parametrize(
    ("before", "wants", "after"),
    [
        (hinting(strategy="ApplyForAll"), {"rdma": 50}, None),
        (hinting(strategy="RequestsAsCount"), {"rdma": 3}, None),
        (JOINT, {"gpu": 600, "rdma": 50}, None),
        (None, {"rdma": 50}, hinting(strategy="RequestsAsCount")),
        (WHOLE_ONES, {"rdma": 1}, None),
        (None, {"rdma": 1}, WHOLE_ONES),
    ],
    ids=["each", "so many", "at each switch", "one", "a whole one", "a part"],
)
def test_a_tenant_who_changes_the_annotations_of_a_bound_pod_frees_nothing_and_gets_nothing(
    before, wants, after
):
    world = server("s0 s1 s2")
    given(world, "p", **wanting(before, **wants))
    free = [card.free[f"{K}rdma"] for card in kept(world.columns, 0).devices["rdma"]]
    world.pod("p", "a", **wanting(after, **wants))
    left = [card.free[f"{K}rdma"] for card in kept(world.columns, 0).devices["rdma"]]

    assert left == free and min(free) < 100


def test_what_a_pod_wanted_counts_after_a_restart_whatever_it_said_meanwhile():
    world = server("s0 s1 s2")
    cards = given(world, "p", **wanting(hinting(strategy="ApplyForAll"), rdma=50))
    before = kept(world.columns, 0).devices
    world.pod("p", **wanting(None, rdma=50))
    again = Columns(world.state, dict(world.columns.placements.dealt))
    again.place(world.state.pods["p"], "a", cards)

    assert kept(again, 0).devices == before


class Drawn:
    """A node of any cards and RDMA devices at any switches, and a pod of any terms; what brute force says of its devices."""

    def __init__(self, dice):
        self.world = World().node("a", allocatable=cards(8))
        switches = [dice.choice("abcd") for _ in range(dice.randrange(2, 9))]
        nics = [dice.choice("abcde") for _ in range(dice.randrange(1, 7))]
        there = [gpu(n, numa=ord(at) % 2, switch=at) for n, at in enumerate(switches)]
        found(self.world, "a", *there, *(nic(n, at) for n, at in enumerate(nics)))
        self.at = {("gpu", n): one for n, one in enumerate(switches)}
        self.at |= {("rdma", n): one for n, one in enumerate(nics)}

    def pod(self, dice, uid):
        self.scope = dice.choice(("", "PCIe", "NUMANode"))
        joint = dice.choice((DeviceTerms(), JOINT, SAME))
        self.terms = msgspec.structs.replace(joint, hints={"gpu": DeviceHint(scope=self.scope)})
        wants = {"gpu": dice.choice((30, 100, 200, 300)), "rdma": dice.choice((20, 100, 200))}
        cycle = self.world.cycle(uid, **wanting(self.terms, **wants))
        self.parts, free = parts_of(cycle.pod, "now"), kept(self.world.columns, 0).devices
        self.fits = {
            kind: [(kind, card.minor) for card in free[kind] if card.takes(part.amounts)]
            for kind, part in self.parts.items()
        }
        return cycle

    def one_card_has_room(self):
        """Where a pod wants one card: whether that and its RDMA devices can be had."""
        many = self.parts["rdma"].count
        nics = [self.at[one] for one in self.fits["rdma"]]
        at_one = any(nics.count(self.at[card]) >= many for card in self.fits["gpu"])
        return at_one if self.terms.same_switch else bool(self.fits["gpu"]) and len(nics) >= many

    def judge(self, devices):
        """What a pod got is there, and lies as it wants."""
        took = {kind: [one for one in devices if one[0] == kind] for kind in self.parts}
        places = {kind: {self.at[one] for one in took[kind]} for kind in self.parts}
        assert all(one in self.fits[one[0]] for one in devices) and len({*devices}) == len(devices)
        assert not self.terms.same_switch or places["gpu"] == places["rdma"]
        most = max(self.parts["rdma"].count, len(places["gpu"]) if self.terms.joint else 0)
        assert len(took["gpu"]) == self.parts["gpu"].count
        assert self.parts["rdma"].count <= len(took["rdma"]) <= most
        assert self.scope != "PCIe" or len(places["gpu"]) == 1
        assert self.scope != "NUMANode" or len({ord(one) % 2 for one in places["gpu"]}) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(20, 200)))
def test_devices_lie_as_pods_want_them_and_one_card_is_found_where_there_is_one(seed):
    """By brute force, for pods of all terms one after the other."""
    dice = Random(seed)
    drawn, plugin = Drawn(dice), DeviceShare(strategy=dice.choice(("LeastAllocated", "MostAllocated")))  # fmt: skip
    for step in range(30):
        cycle = drawn.pod(dice, f"p{step}")
        is_refused, devices = bool(reasons(plugin, cycle)), plugin.cards(cycle, 0)
        if drawn.parts["gpu"].count == 1:
            assert drawn.one_card_has_room() is not is_refused
        if not is_refused:
            kinds = (("rdma", one - FIRST["rdma"]) if one >= FIRST["rdma"] else ("gpu", one) for one in devices)  # fmt: skip
            drawn.judge(list(kinds))
            drawn.world.columns.place(cycle.pod, "a", devices)
            assert plugin.reserve(cycle, 0) == ""

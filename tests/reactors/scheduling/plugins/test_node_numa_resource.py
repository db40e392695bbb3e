"""NodeNUMAResource: no CPU is given twice, and policies for NUMA nodes hold; the numeric cases say which CPUs are picked."""

import itertools
import random

import msgspec
import pytest

from bus.cpusets import parsed
from bus.events.constraints import CpuTerms, HeldCpus, NumaShare, PodConstraints
from bus.events.nodes import NodeTopologyObserved, NodeTopologyVanished, NumaZone
from reactors.scheduling.cpus.giving import (
    NO_BIND,
    NO_CPUS,
    NO_NUMA,
    NOT_ALIGNED,
    OTHER_POLICY,
    TOO_MANY_NUMA,
)
from reactors.scheduling.cpus.rooms import BIND, POLICY, STRATEGY
from reactors.scheduling.cpus.wishes import (  # fmt: skip
    NO_FULL_CORES,
    NO_TOPOLOGY,
    NO_WHOLE_CORES,
    NO_WHOLE_CPUS,
)
from reactors.scheduling.framework.contract import SKIP
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.node_numa_resource import NodeNUMAResource
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from reactors.scheduling.queueing.hints import Hint, hints_of
from reactors.scheduling.queueing.messages import CPUS_TAKEN
from tests import factories as f
from tests.reactors.scheduling.worlds import World, reasons, scores
from tests.thorough import tries

PLUGIN = NodeNUMAResource()
GIB = 2**30
OFFERED = {"cpu": "64", "memory": "64Gi", "pods": "110"}


def laid_out(numa=2, cores=2, threads=2):
    """A node with one socket for every two NUMA nodes."""
    return tuple(
        (n, n // threads, n // (threads * cores * 2), n // (threads * cores))
        for n in range(numa * cores * threads)
    )


def topology(world, name="a", numa=2, cores=2, threads=2, gib=8, gone=False, **fields):
    world._version += 1
    about = {"uid": f"t-{name}", "name": name, "resource_version": str(world._version)}
    zones = tuple(NumaZone(n, {"cpu": str(cores * threads), "memory": f"{gib}Gi"}) for n in range(numa))  # fmt: skip
    told = {"cpus": laid_out(numa, cores, threads), "zones": zones} | fields
    fact = NodeTopologyVanished(**about) if gone else NodeTopologyObserved(**about, **told)
    world.see(f.said(fact, key=name, id=f"{fact.wire_type}/{name}/{world._version}", at=world._version))  # fmt: skip


def world(*labels, **fields):
    found = World().node("a", allocatable=OFFERED, further_labels=dict(labels))
    topology(found, **fields)
    return found


def wanting(cpu=2, qos="LSR", priority=9_500, gib=None, **terms):
    asked = {"cpu": str(cpu)} | ({} if gib is None else {"memory": f"{gib}Gi"})
    told = PodConstraints(scheduler_name="bursar", cpus=CpuTerms(qos, **terms))
    return {
        "resources": f.requesting(asked), "priority": priority,
        "constraints": msgspec.Raw(msgspec.json.encode(told)),
    }  # fmt: skip


def given(world, uid="p", plugin=PLUGIN, row=0, **fields):
    """Choose CPUs for a waiting pod and count it on them; what it gets."""
    cycle = world.cycle(uid, **fields)
    if reasons(plugin, cycle).get(world.columns.names[row]):
        return None
    found = plugin.cpus(cycle, row)
    world.columns.place(cycle.pod, world.columns.names[row], (), found)
    assert plugin.reserve(cycle, row) == ""
    return found


def test_cpus_are_given_while_there_are_some():
    found = world()
    got = [given(found, f"p{n}", **wanting()) for n in range(5)]

    assert [one and one.cpuset for one in got] == ["0-1", "2-3", "4-5", "6-7", None]
    assert reasons(PLUGIN, found.cycle(**wanting())) == {"a": {NO_CPUS}}


@pytest.mark.parametrize(
    ("fields", "label", "told", "expected"),
    [
        (wanting(), (), {"cpus": ()}, NO_TOPOLOGY),
        (wanting(3), (BIND, "FullPCPUsOnly"), {}, NO_WHOLE_CORES),
        (wanting(2, bind="SpreadByPCPUs"), (), {"full_only": True}, NO_FULL_CORES),
        (wanting(9), (), {}, NO_CPUS),
        (wanting(3, required="FullPCPUs"), (), {}, NO_BIND),
        (wanting(5, required="SpreadByPCPUs"), (), {}, NO_BIND),
        (wanting(2, numa_policy="Restricted"), (POLICY, "SingleNUMANode"), {}, OTHER_POLICY),
        (wanting(2), (POLICY, "Restricted"), {"zones": ()}, NO_NUMA),
        (wanting(2), (POLICY, "Restricted"), {"numa": 9}, TOO_MANY_NUMA),
        (wanting(5), (POLICY, "SingleNUMANode"), {}, NOT_ALIGNED),
        (wanting(1, gib=9), (POLICY, "SingleNUMANode"), {}, NOT_ALIGNED),
        (wanting(1, "", gib=9), (), {"policy": "SingleNUMANode"}, NOT_ALIGNED),
        (wanting(1, "", 0, gib=9, numa_policy="SingleNUMANode"), (), {}, NOT_ALIGNED),
    ],
)
def test_a_node_that_cannot_have_it_so_says_why(fields, label, told, expected):
    found = world(*([label] if label else []), **told)
    cycle = found.cycle(**fields)
    refused = PLUGIN.filter(cycle, slice(None))

    assert reasons(PLUGIN, cycle) == {"a": {expected}}
    assert "a" in PLUGIN.remedy(cycle, 0)
    assert refused[0].unresolvable[0] or expected == NO_BIND


def test_a_part_of_a_cpu_is_refused_and_others_are_not_asked():
    found = world()
    part = PLUGIN.pre_filter(found.cycle(**wanting("1500m")))
    asked = [wanting(1, ""), wanting(1, priority=0), wanting("1500m", "LS"), {}]

    assert part is not None and part.reason == NO_WHOLE_CPUS
    assert [PLUGIN.pre_filter(found.cycle(**one)) for one in asked] == [SKIP] * 4
    assert PLUGIN.pre_filter(world((POLICY, "BestEffort")).cycle()) is None


@pytest.mark.parametrize(
    ("needs", "label", "expected"),
    [
        (wanting(2, gib=2), "SingleNUMANode", [("0-1", [(0, "2", 2)]), ("2-3", [(0, "2", 2)]), ("4-5", [(1, "2", 2)])]),
        (wanting(5), "Restricted", [("0-4", [(0, "4", 0), (1, "1", 0)]), None, None]),
        (wanting(3, required="SpreadByPCPUs"), "Restricted",
         [(cpus, [(0, "2", 0), (1, "1", 0)]) for cpus in ("0,2,4", "1,3,5")] + [None]),
        (wanting(3, gib=5), "BestEffort", [("0-2", [(0, "3", 5)]), ("4-6", [(1, "3", 5)]), None]),
        (wanting(1, "", gib=6), "SingleNUMANode", [("", [(0, "1", 6)]), ("", [(1, "1", 6)]), None]),
        (wanting("1500m", "", gib=9), "Restricted", [("", [(0, "1500m", 8), (1, None, 1)]), None, None]),
    ],
)  # fmt: skip
def test_what_a_policy_lets_pods_have_of_numa_nodes(needs, label, expected):
    found = world((POLICY, label))
    got = [given(found, f"p{n}", **needs) for n in range(3)]

    assert got == [one and held(*one) for one in expected]


def held(cpuset, shares):
    return HeldCpus(
        cpuset,
        tuple(
            NumaShare(node, ({"cpu": cpu} if cpu else {}) | ({"memory": str(gib * GIB)} if gib else {}))
            for node, cpu, gib in shares
        ),
    )  # fmt: skip


def test_best_effort_takes_what_no_numa_nodes_have():
    found = world((POLICY, "BestEffort"), zones=())

    assert given(found, **wanting(3)) == HeldCpus("0-2")
    assert given(found, "q", **wanting(1, "", gib=99)) is None
    assert reasons(PLUGIN, found.cycle("q", **wanting(1, "", gib=99))) == {}


@pytest.mark.parametrize(
    ("wants", "taken", "expected"),
    [
        ({"required": "FullPCPUs"}, "0,2,4", "6-7"),
        ({"bind": "FullPCPUs"}, "0,2,4,6", "1,3"),
        ({"required": "FullPCPUs"}, "0,2,4,6", None),
        ({"required": "SpreadByPCPUs"}, "", "0,2"),
        ({"required": "SpreadByPCPUs"}, "2-7", None),
        ({"bind": "SpreadByPCPUs"}, "2-7", "0-1"),
        ({"exclusive": "PCPULevel", "bind": "SpreadByPCPUs"}, "", "0,2"),
    ],
)
def test_a_required_policy_is_kept_and_a_preferred_one_where_it_can_be(wants, taken, expected):
    found = world(reserved=taken)
    got = given(found, **wanting(2, **wants))

    assert (got and got.cpuset) == expected


def test_pods_that_others_bound_hold_what_they_say_and_pay_for():
    def holding(cpu, cpuset, **more):
        return wanting(cpu, "", holds=HeldCpus(cpuset, **more))

    found, seen = world((POLICY, "BestEffort")), []
    for fields in (
        holding(2, "0-1"), holding("500m", "2-7"), holding(1, "99"), holding(1, "0"), holding(1, "-"),
        holding(0, "3"), holding(1, "4", numa_node_resources=(NumaShare(1, {"cpu": "999", "memory": "1Ei", "x": "-1"}),)),
    ):  # fmt: skip
        found.pod("other", "a", **fields)
        seen.append(PLUGIN.room(found.columns, 0))
        found.gone("other")
        found = world((POLICY, "BestEffort"))
    taken = [sorted(one.holders.times) for one in seen]
    left = [[one.free["cpu"] for one in room.numa] for room in seen]

    assert taken == [[0, 1], [2], [99], [0], [], [], [4]]
    assert left == [[2000, 4000], [3000, 4000], [4000, 4000], [3000, 4000], [4000, 4000], [4000, 4000], [4000, 3000]]  # fmt: skip


@pytest.mark.parametrize("says", [None, HeldCpus("4-5"), HeldCpus("6")])
def test_what_a_decision_gave_is_held_whatever_the_annotation_says_later(says):
    found = world()
    given(found, "p", **wanting())
    found.pod("p", "a", **wanting(holds=HeldCpus("0-1")))
    as_it_was = PLUGIN.room(found.columns, 0).free
    found.pod("p", "a", **wanting(holds=says))
    cpus = parsed(says.cpuset) if says else set()

    assert as_it_was == set(range(2, 8))
    assert PLUGIN.room(found.columns, 0).free == as_it_was - cpus
    found.gone("p")
    assert len(PLUGIN.room(found.columns, 0).free) == 8 and not found.columns.placements.dealt


def test_what_a_waiting_pod_says_that_it_has_is_taken_from_it():
    found = world()
    forged = HeldCpus("0-7")

    assert given(found, "p", **wanting(2, "", holds=forged)) == HeldCpus()
    assert given(found, "q", **wanting(8, holds=forged)) == forged
    assert given(found, "r", **wanting(2, "", holds=HeldCpus())) == HeldCpus()


@pytest.mark.parametrize(
    ("label", "shared", "cpu", "terms", "expected"),
    [
        ("Restricted", 6, 10, {}, {0: "2", 1: "8"}),
        ("BestEffort", 6, 10, {}, {0: "2", 1: "8"}),
        ("Restricted", 5, 10, {"required": "FullPCPUs"}, {0: "2", 1: "8"}),
        ("BestEffort", 7, 5, {"required": "SpreadByPCPUs"}, {0: "1", 1: "4"}),
        ("Restricted", 7, 10, {}, None),
        ("Restricted", 7, 10, {"required": "FullPCPUs"}, None),
    ],
)
def test_cpus_are_picked_beside_shares_of_pods_that_have_none_for_themselves(label, shared, cpu, terms, expected):  # fmt: skip
    found = world((POLICY, label), cores=4)
    given(found, "shares", **wanting(shared, "LS"))
    got = given(found, **wanting(cpu, **terms))

    assert (got and {one.node: one.resources["cpu"] for one in got.numa_node_resources}) == expected
    assert got is None or len(parsed(got.cpuset)) == cpu


def test_a_numa_node_that_pods_have_too_much_of_takes_nothing_from_another_one():
    found = world((POLICY, "Restricted"), cores=4)
    given(found, "shares", **wanting(6, "LS"))
    found.pod("other", "a", **wanting(8, "", holds=HeldCpus("0-7")))

    assert given(found, **wanting(6, gib=9)) == HeldCpus(
        "8-13", (NumaShare(0, {"memory": str(8 * GIB)}), NumaShare(1, {"cpu": "6", "memory": str(GIB)})),
    )  # fmt: skip


def test_cpus_that_another_pod_got_meanwhile_are_not_reserved():
    found = world()
    cycle = found.cycle(**wanting())
    found.columns.place(cycle.pod, "a", (), HeldCpus("0-1"))
    alone = PLUGIN.reserve(cycle, 0)
    told = [
        lambda: found.pod("other", "a", **wanting(2, "", holds=HeldCpus("1-2"))),
        lambda: (found.gone("other"), topology(found, reserved="0")),
        lambda: topology(found, held="1"),
        lambda: topology(found),
        lambda: topology(found, gone=True),
    ]
    then = []
    for one in told:
        one()
        then.append(PLUGIN.reserve(cycle, 0))

    assert (alone, then) == ("", [CPUS_TAKEN, CPUS_TAKEN, CPUS_TAKEN, "", CPUS_TAKEN])


def test_room_that_is_held_for_a_nominated_pod_is_not_given():
    found = world()
    found.columns.place(found.pod("ahead", **wanting(6)), "a")

    assert reasons(PLUGIN, found.cycle(**wanting(3))) == {"a": {NO_CPUS}}
    assert given(found, **wanting(2)) == HeldCpus("0-1")


def test_several_pods_share_a_cpu_where_the_profile_says_so():
    found, plugin = world(numa=1, cores=1), NodeNUMAResource(most_pods=2)
    got = [given(found, f"p{n}", plugin, **wanting()) for n in range(3)]

    assert got == [HeldCpus("0-1"), HeldCpus("0-1"), None]


@pytest.mark.parametrize(
    ("strategy", "label", "best"),
    [("MostAllocated", "", "a"), ("LeastAllocated", "", "b"), ("MostAllocated", "LeastAllocated", "b")],
)  # fmt: skip
def test_the_fuller_or_the_emptier_node_is_better(strategy, label, best):
    found, plugin = World(), NodeNUMAResource(strategy=strategy)
    for name in "ab":
        found.node(name, further_labels={STRATEGY: label})
        topology(found, name)
    found.columns.place(found.pod("held", **wanting(2)), "a", (), HeldCpus("0-1"))
    got = scores(plugin, found.cycle(**wanting(2)))

    assert max(got, key=got.get) == best
    assert all(0 <= one <= 100 for one in got.values())
    assert scores(plugin, found.cycle(**wanting(5)))["b"] in range(1, 51)


def test_who_waits_for_cpus_is_woken_by_news_of_them_and_not_by_every_word_of_an_agent():
    found, hints = world(), []
    found.listeners.append(lambda changes: hints.extend(o for c in changes for o in hints_of(c)))
    for fields in ({}, {"held": "0"}, {"held": "0"}, {"gone": True}):
        topology(found, **fields)
    found.pod("other", "a", **wanting(2, "", holds=HeldCpus("0-1")))
    found.pod("other", "a", **wanting(2, "", holds=HeldCpus("0")))

    assert hints == [Hint.CPUS, Hint.CPUS, Hint.PLACED, Hint.GONE]
    assert set(hints) - {Hint.PLACED} <= PLUGIN.helped_by


def test_what_would_place_a_pod_is_said():
    found = world()
    given(found, "held", **wanting(7))
    profile = Profile("numa", (Enabled(PrioritySort()), Enabled(PLUGIN)))
    told = explained(Framework(profile, found.context), found.pod("p", **wanting(2)), 1)

    assert told.changes == ["free CPUs of a: 1 of 8 are free (node a)"]
    assert told.message == f"0/1 nodes are available: 1 {NO_CPUS}."


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(10, 100)))
def test_random_pods_fit_as_by_brute_force_and_no_cpu_is_given_twice(seed):
    """Nodes come and go, binds are refused, pods end, others bind pods of their own."""
    rng, found, held = random.Random(seed), World(), {}
    nodes: dict[str, tuple[int, int, str]] = {}
    for step in range(60):
        uid = f"p{step}"
        if not nodes or rng.random() < 0.08:
            policy = rng.choice(("", "BestEffort", "Restricted", "SingleNUMANode"))
            nodes[f"n{step}"] = shape = (rng.randrange(1, 4), rng.randrange(1, 4), policy)
            found.node(f"n{step}", further_labels={POLICY: shape[2]})
            topology(found, f"n{step}", *shape[:2], gib=4)
        elif rng.random() < 0.06:
            name = rng.choice(sorted(nodes))
            found.see(f.node_vanished(name, 10**6 + step, 10**6 + step, uid=f"uid-{name}"))
            del nodes[name]
            held = {key: one for key, one in held.items() if one[0] != name}
        elif held and rng.random() < 0.3:
            gone = rng.choice(sorted(held))
            is_bound = bool(found.state.pods[gone].node)
            found.gone(gone) if is_bound or rng.random() < 0.5 else found.columns.take_back(gone)
            del held[gone]
        elif held and rng.random() < 0.2:
            bound(found, rng.choice(sorted(held)), held)
        elif nodes:
            held |= tried(found, rng, uid, nodes, held)
        for name in nodes:
            cpus = [cpu for node, got, _ in held.values() if node == name for cpu in parsed(got.cpuset)]  # fmt: skip
            assert len(cpus) == len(set(cpus))
            assert all(one >= 0 for part in left_of(nodes[name], name, held) for one in part[1:])


def bound(found, uid, held):
    """The pod is seen on its node, with its annotation."""
    name, got, fields = held[uid]
    terms = msgspec.json.decode(bytes(fields["constraints"]), type=PodConstraints)
    told = msgspec.structs.replace(terms, cpus=msgspec.structs.replace(terms.cpus, holds=got))
    found.pod(uid, name, **fields | {"constraints": msgspec.Raw(msgspec.json.encode(told))})


def left_of(shape, name, held):
    """By NUMA node: CPUs that nobody has, and what is free of cpu and memory."""
    numa, cores, _ = shape
    cpus = [set(range(n * cores * 2, (n + 1) * cores * 2)) for n in range(numa)]
    left = [[one, len(one) * 1000, 4 * GIB] for one in map(set, cpus)]
    for node, got, _ in held.values():
        if node != name:
            continue
        mine = parsed(got.cpuset)
        for n, part in enumerate(left):
            part[0] -= mine
            if not got.numa_node_resources and mine:
                part[1] -= 1000 * len(mine & cpus[n])
        for share in got.numa_node_resources:
            left[share.node][1] -= 1000 * int(share.resources.get("cpu", "0"))
            left[share.node][2] -= int(share.resources.get("memory", "0"))
    return [(len(one), max(cpu, 0), memory) for one, cpu, memory in left]


def fits(shape, left, cpu, memory, own=True):
    """By brute force: whether the pod may have that many CPUs, of its own or shared ones, and memory, on the node."""
    numa, cores, policy = shape
    if own and sum(one for one, _, _ in left) < cpu:
        return False
    if policy in ("", "BestEffort"):
        return True
    sizes = [
        size for size in range(1, numa + 1) if size * cores * 2 >= cpu and size * 4 * GIB >= memory
    ]
    if not sizes or (policy == "SingleNUMANode" and sizes[0] > 1):
        return False
    return any(
        sum(min(one, milli // 1000) if own else milli // 1000 for one, milli, _ in some) >= cpu
        and sum(one for _, _, one in some) >= memory
        for some in itertools.combinations(left, sizes[0])
    )  # fmt: skip


def tried(found, rng, uid, nodes, held):
    cpu, gib = rng.randrange(1, 7), rng.randrange(0, 6)
    terms = {"bind": rng.choice(("", "SpreadByPCPUs")), "exclusive": rng.choice(("", "PCPULevel", "NUMANodeLevel"))}  # fmt: skip
    qos = rng.choice(("LSR", "LSR", "LS"))
    fields = wanting(cpu, qos, gib=gib or None, **terms)
    cycle = found.cycle(uid, **fields)
    refused = reasons(PLUGIN, cycle)
    expected = {
        name
        for name, shape in nodes.items()
        if not fits(shape, left_of(shape, name, held), cpu, gib * GIB, qos == "LSR")
    }
    assert set(refused) == expected
    free = sorted(nodes.keys() - expected)
    if not free:
        return {}
    own = cpu if qos == "LSR" else 0
    for name in free:
        got = PLUGIN.cpus(cycle, found.columns.row_of[name]) or HeldCpus()
        assert len(parsed(got.cpuset)) == own
    name = rng.choice(free)
    row = found.columns.row_of[name]
    got = PLUGIN.cpus(cycle, row) or HeldCpus()
    found.columns.place(cycle.pod, name, (), got)
    assert PLUGIN.reserve(cycle, row) == ""
    return {uid: (name, got, fields)}

"""GpuCards on small clusters: never more than there is, and the same as scoring every node anew."""

import numpy as np
import pytest

from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.packing.catalogue import POLICIES, Typical
from reactors.scheduling.packing.learned import LearnedPolicy
from reactors.scheduling.plugins.gpu_cards import REASON, GpuCards
from reactors.scheduling.plugins.nodes.node_affinity import NodeAffinity
from reactors.scheduling.plugins.resources_fit import NodeResourcesFit
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from tests.reactors.scheduling.packing.clusters import NODES, arrivals, gpu_pod, gpu_world
from tests.reactors.scheduling.worlds import reasons

TYPICAL = (Typical(3_000, 810, 1, (), 0.6), Typical(4_000, 320, 1, ("T4",), 0.4))


#: One node of a rare model before others of a common one.
RARE = [
    ("a", 96, 256, 8, "G3"),
    ("b", 96, 256, 8, "T4"),
    *((one, 96, 256, 8, "G2") for one in "cdef"),
]
WHOLE_CARD = (8_000, 16_000, 100, ())


def packing(policy, world, *, typical=TYPICAL, learned=LearnedPolicy()):
    cards = GpuCards(policy, typical, learned)
    plugins = (PrioritySort(), NodeResourcesFit(), NodeAffinity(), cards)
    enabled = tuple(Enabled(one, int(one.name == GpuCards.name)) for one in plugins)
    return Framework(Profile("packing", enabled, takes_first=True), world.context)


def placed(framework, pod, sequence=1):
    """(node, cards), and the pod counts there."""
    cycle = Cycle(pod, framework.context)
    row = framework.choose(cycle, sequence).row
    if row < 0:
        return None
    node, cards = framework.columns.names[row], framework.cards(cycle, row)
    framework.columns.place(pod, node, cards)
    return node, cards


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pod_is_placed_where_it_fits_and_nowhere_only_where_nothing_does(policy):
    world = gpu_world()
    framework, columns = packing(policy, world), world.columns
    for number, shape in enumerate(arrivals(120)):
        _, _, hundredths, models = shape
        count, milli = (1, hundredths * 10) if hundredths < 100 else (hundredths // 100, 1000)
        room = (
            (columns.cards.each >= milli).sum(axis=1) >= count
            if hundredths
            else columns.resources.free[:, 0] > 0
        )
        pod = gpu_pod(world, f"p{number}", shape)
        room &= (columns.resources.free >= columns.resources.request(pod)).all(axis=1)
        room &= [not models or one[4] in models for one in NODES]
        before = columns.cards.each.copy()
        found = placed(framework, pod)

        assert (found is None) == (not room.any())
        if found is not None:
            node, cards = found
            row = columns.row_of[node]
            assert room[row]
            assert len(set(cards)) == (count if hundredths else 0)
            taken = (before - columns.cards.each)[row]
            assert taken.tolist() == [milli * (at in cards) for at in range(8)]
    assert columns.resources.free.min() >= 0 and columns.cards.each.min() == -1
    assert columns.cards.idle.tolist() == np.maximum(columns.cards.each, 0).sum(axis=1).tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_kept_is_what_would_be_scored_anew(policy):
    world = gpu_world()
    keeping = packing(policy, world)
    for number, shape in enumerate(arrivals(40, seed=2)):
        pod = gpu_pod(world, f"p{number}", shape)
        anew = packing(policy, world)
        found = anew.choose(Cycle(pod, anew.context), 1).row
        kept = placed(keeping, pod)

        assert (world.columns.names[found] if found >= 0 else None) == (kept and kept[0])


@pytest.mark.parametrize("policy", ["FGD", "Learned"])
def test_what_is_learned_is_a_function_of_the_pods_so_far(policy):
    begun, runs = arrivals(80), []
    for rest in (arrivals(40, seed=3), arrivals(40, seed=4)):
        world = gpu_world()
        framework = packing(policy, world, typical=())
        shapes = enumerate((*begun, *rest))
        runs.append([placed(framework, gpu_pod(world, f"p{at}", shape)) for at, shape in shapes])

    assert runs[0][:80] == runs[1][:80]
    assert framework.columns.facts.learned().lesson.number == 3


def after_one_that_selects_t4(count, *, selects=True, **weights):
    """The cluster, and the nodes of so many pods that any node will do for."""
    world = gpu_world(RARE)
    framework = packing("Learned", world, learned=LearnedPolicy(**weights))
    begins = (8_000, 16_000, 100, ("T4",)) if selects else WHOLE_CARD
    placed(framework, gpu_pod(world, "first", begins))
    pods = [gpu_pod(world, f"p{at}", WHOLE_CARD) for at in range(count)]
    return world, framework, [placed(framework, pod)[0] for pod in pods]


def test_a_rare_model_is_left_to_pods_that_select_it_later():
    world, framework, nodes = after_one_that_selects_t4(24)
    late = gpu_pod(world, "late", (8_000, 16_000, 800, ("G3",)))

    assert set(nodes) <= set("cdef")
    assert placed(framework, late) == ("a", tuple(range(8)))


def test_a_rare_model_takes_any_pod_when_it_has_as_many_idle_cards_as_the_common_one():
    _, _, nodes = after_one_that_selects_t4(40)

    assert nodes.count("a") == 8 and "b" not in nodes


def test_room_that_no_share_can_use_makes_no_model_look_plentiful():
    common = "abcdefgh"
    nodes = [(one, 96, 256, 8, "G2") for one in common]
    world = gpu_world([*nodes, ("i", 96, 256, 8, "G3"), ("j", 96, 256, 8, "T4")])
    framework = packing("Learned", world, typical=())
    gpu_pod(world, "a-first", (1_000, 1, 81, ("T4",)))
    # Of the common model, two cards are idle and 62 have 190 left, into which none of these shares fits.
    for number in range(62):
        held = gpu_pod(world, f"held{number:02}", (1_000, 1, 81, ()))
        world.columns.place(held, common[number // 8], (number % 8,))
    idle = world.columns.cards.idle

    assert idle[:8].sum() > idle[8] == 8_000
    assert placed(framework, gpu_pod(world, "p", (1_000, 1, 100, ()))) == ("i", (0,))


@pytest.mark.parametrize("otherwise", [{"unseen": 0.0}, {"selects": False}])
def test_a_rare_model_costs_nothing_without_its_weight_or_where_no_pod_selects(otherwise):
    _, _, nodes = after_one_that_selects_t4(7, **otherwise)

    assert set(nodes) == {"a"}


def test_shares_that_no_single_card_takes_are_refused_with_the_reason():
    world = gpu_world([("a", 64, 64, 2, "T4"), ("b", 64, 64, 1, "T4"), ("c", 64, 64, 0, "")])
    framework = packing("BestFit", world)
    for at, name in enumerate("aab"):
        pod = gpu_pod(world, f"share{at}", (1_000, 1, 60, ()))
        world.columns.place(pod, name, (at % 2,))
    pod = gpu_pod(world, "p", (1_000, 1, 70, ()))
    found = explained(framework, pod, 1)

    assert reasons(GpuCards(), Cycle(pod, world.context)) == {name: {REASON} for name in "abc"}
    assert found.node == ""
    assert "free 70 % of a card of node a (node a)" in found.changes


def test_draws_of_a_card_reach_every_card_that_has_room():
    world = gpu_world([("a", 64, 64, 4, "T4")])
    plugin = GpuCards("Random")
    held = gpu_pod(world, "held", (1_000, 1, 60, ()))
    world.columns.place(held, "a", (1,))
    pods = [gpu_pod(world, f"p{at}", (1_000, 1, 50, ())) for at in range(40)]

    assert {plugin.cards(Cycle(pod, world.context), 0) for pod in pods} == {(0,), (2,), (3,)}

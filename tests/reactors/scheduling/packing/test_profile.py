"""A profile that packs by GpuCards: real pods get cards, and what is learned of pods is a fold like everything else."""

from random import Random

import msgspec
import pytest

from bus.events.decisions import SchedulingPassed
from reactors.engine.verify import rederive
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.scene import OURS
from tests.scenario import Scenario

CORE = "koordinator.sh/gpu-core"
RATIO, SHARED = "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu.shared"
OFFERED = {"cpu": "64", "memory": "256Gi", "pods": "110", CORE: "400"}


def packing(**fields):
    profile = SchedulingProfile(weights={"GpuCards": 10}, fields={"GpuCards": fields})
    return SchedulingPolicy(profiles=(profile,))


def pod(at, number, hundredths, model=""):
    terms = {"schedulerName": "bursar"} | ({"nodeSelector": {"model": model}} if model else {})
    asked = f.requesting({"cpu": "1", "memory": "1Gi", CORE: str(hundredths)})
    return f.pod_observed(
        f"p{number:03}", number, at.at(), node=None, resources=asked,
        constraints=msgspec.Raw(msgspec.json.encode(terms)),
    )  # fmt: skip


async def scene(policy, offered=OFFERED):
    at = Scenario(reactor, {})
    nodes = [
        f.node_observed(name, 1, at.at(), uid=name, allocatable=offered, labels={"model": model})
        for name, model in zip("abcd", ("T4", "T4", "G2", "G3"), strict=True)
    ]
    # Who learns has pods to learn from that are there already.
    await at.say(*nodes, pod(at, 900, 20))
    await at.set_policy(policy)
    return at


def placed(at):
    """(pod, node, cards) of every placement, in order."""
    return [
        (one.name, passed.nodes[one.node], one.cards)
        for passed in at.facts(SchedulingPassed)
        for one in passed.pods
        if one.node >= 0
    ]


@pytest.mark.parametrize("policy", ["BestFit", "FGD", "Learned"])
async def test_pods_get_cards_and_every_decision_is_derived_again_also_from_snapshots(policy):
    at, random = await scene(packing(policy=policy)), Random(7)
    for step in range(12):
        sizes = [
            (random.choice((20, 40, 60, 100, 200)), random.choice(("", "", "T4", "G2")))
            for _ in range(6)
        ]
        await at.say(*(pod(at, step * 10 + n, *size) for n, size in enumerate(sizes)))
    events = at.transport.events
    cuts, never = random.sample(range(1, len(events)), 6), {"decides_on": lambda _: False}
    replica = lambda: at.new_runner(reactor).replica  # noqa: E731
    found = rederive(lambda: iter(events), [reactor], at.cluster)
    used = {}
    for name, node, cards in placed(at):
        for card in cards:
            used.setdefault((node, card), []).append(name)

    assert known(folded(replica(), events, [], **never)) == known(
        folded(replica(), events, [], cuts=cuts, **never)
    )
    assert (found.mismatches, found.same) == ((), len(at.facts(SchedulingPassed)))
    assert len(used) == 16 and all(cards for _, _, cards in placed(at))
    state = at.runner.replica.states["scheduling"].saved()
    assert (state.arrivals is not None) == (policy != "BestFit")
    assert policy == "BestFit" or (state.arrivals.count, state.arrivals.lesson) == (73, 2)


async def test_no_card_is_given_twice():
    at = await scene(packing(policy="Learned"))
    await at.say(*(pod(at, n, 100) for n in range(20)))
    cards = [(node, card) for _, node, cards in placed(at) for card in cards]

    # A fifth of one card is taken by the pod that was there first.
    assert len(cards) == len(set(cards)) == 16


@pytest.mark.parametrize("policy", ["BestFit", "FGD", "Learned"])
@pytest.mark.parametrize("seed", range(4))
async def test_parts_of_several_cards_get_as_many_and_no_card_is_over_its_sum(policy, seed):
    offered = OFFERED | {RATIO: "400", SHARED: "100"}
    at, random, wanted = await scene(packing(policy=policy), offered), Random(seed), {}
    for number in range(60):
        shared, part = random.choice(((2, 100), (3, 60), (2, 40), (1, 30), (2, 200)))
        name = f"p{number:03}"
        wanted[name] = (shared, min(-(-part * 10 // shared), 1000))
        asked = f.requesting({"cpu": "100m", RATIO: str(part), SHARED: str(shared)})
        await at.say(
            f.pod_observed(name, number + 1, at.at(), node=None, resources=asked, constraints=OURS)
        )
    used = dict.fromkeys(((node, card) for node in "abcd" for card in range(4)), 0)
    for name, node, cards in placed(at):
        # The one that was there asks for a fifth of a card.
        count, milli = wanted.get(name, (1, 200))
        assert len(set(cards)) == count
        for card in cards:
            used[node, card] += milli

    assert max(used.values()) <= 1000
    assert sum(used.values()) > 12_000
    found = rederive(lambda: iter(at.transport.events), [reactor], at.cluster)
    assert found.mismatches == ()


def test_a_policy_that_there_is_not_is_refused_by_name():
    with pytest.raises(ValueError, match="GpuCards: Invalid enum value 'Tetris'"):
        packing(policy="Tetris")

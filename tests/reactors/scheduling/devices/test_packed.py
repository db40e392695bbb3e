"""DeviceShare and GpuCards in one profile: whatever fits is placed, no card holds too much, the policy chooses a share's card."""

from random import Random

import msgspec
import pytest

from bus.events.decisions import SchedulingPassed
from reactors.engine.verify import rederive
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.plugins.sharing import GIB, K, asking, cards
from tests.scenario import Scenario
from tests.thorough import tries

OURS = msgspec.Raw(b'{"schedulerName":"bursar"}')
#: Node to the number of its cards and the memory of each, in GiB.
NODES = {"a": (2, 16), "b": (1, 80), "c": (3, 16)}


def both(policy):
    weights = {"DeviceShare": 1, "GpuCards": 10}
    fields = {"GpuCards": {"policy": policy}}
    return SchedulingPolicy(profiles=(SchedulingProfile(weights=weights, fields=fields),))


async def scene(policy):
    at = Scenario(reactor, {})
    for name, (count, gib) in NODES.items():
        offered = cards(count, gib=gib, **{f"{K}gpu-memory-ratio": str(100 * count)})
        await at.say(f.node_observed(name, 1, at.at(), uid=name, allocatable=offered))
    await at.set_policy(both(policy))
    return at


def drawn(dice):
    """What a pod requests."""
    part, gib = dice.randrange(5, 100), dice.randrange(1, 30)
    other = {"gpu_memory_ratio": dice.randrange(5, 100)}
    whole = {"gpu_core": 100, "gpu_memory_ratio": 100}
    memory = {"gpu_memory": gib * GIB}
    return dice.choice((memory, other, other, whole, {"gpu_core": part} | memory, {"gpu_core": part} | other))  # fmt: skip


class Held:
    """What is given of each card by a plain count: (hundredths of core, bytes, hundredths of memory)."""

    def __init__(self):
        self.cards = {(name, card): [0, 0, 0] for name, (n, _) in NODES.items() for card in range(n)}  # fmt: skip

    def needs(self, ask, name):
        size = NODES[name][1] * GIB
        ratio = ask.get("gpu_memory_ratio")
        taken = ask["gpu_memory"] if ratio is None else ratio * size // 100
        return ask.get("gpu_core", 0), taken, int(taken / size * 100) if ratio is None else ratio

    def fitting(self, ask, name):
        needed, size = self.needs(ask, name), NODES[name][1] * GIB
        most = (100, size, 100)
        return [
            card for (node, card), held in self.cards.items()
            if node == name and all(h + n <= m for h, n, m in zip(held, needed, most, strict=True))
        ]  # fmt: skip

    def give(self, ask, name, card):
        held = self.cards[name, card]
        for at, amount in enumerate(self.needs(ask, name)):
            held[at] += amount
        assert held[0] <= 100 and held[1] <= NODES[name][1] * GIB and held[2] <= 100


@pytest.mark.parametrize("seed", range(tries(3, 12)))
@pytest.mark.parametrize("policy", ["BestFit", "FGD", "Learned", "Random", "GpuPacking"])
async def test_whatever_fits_is_placed_on_a_card_that_has_the_room(policy, seed):
    at, dice, held, asks, placed = await scene(policy), Random(seed), Held(), {}, 0
    for number in range(22):
        uid, ask = f"p{number:03}", drawn(dice)
        asks[uid] = ask
        resources = asking(**ask)
        await at.say(
            f.pod_observed(uid, number + 10, at.at(), node=None, constraints=OURS, **resources)
        )
        new = [
            (passed.nodes[one.node], one.cards)
            for passed in at.facts(SchedulingPassed)
            for one in passed.pods
            if one.uid == uid and one.node >= 0
        ]
        fits = [name for name in NODES if held.fitting(ask, name)]
        assert bool(new) == bool(fits), (ask, fits, new)
        for name, (card,) in new:
            placed += 1
            held.give(ask, name, card)
    events = at.transport.events
    cuts, never = dice.sample(range(1, len(events)), 4), {"decides_on": lambda _: False}
    replica = lambda: at.new_runner(reactor).replica  # noqa: E731
    found = rederive(lambda: iter(events), [reactor], at.cluster)

    assert placed > 5 and (found.mismatches, found.same) == ((), len(at.facts(SchedulingPassed)))
    assert known(folded(replica(), events, [], **never)) == known(
        folded(replica(), events, [], cuts=cuts, **never)
    )


async def cards_of(policy, *asks):
    """Node and card of each of the pods, which come one after the other."""
    at = await scene(policy)
    for number, ask in enumerate(asks):
        await at.say(f.pod_observed(f"p{number}", number + 10, at.at(), node=None, constraints=OURS, **asking(**ask)))  # fmt: skip
    return [
        (passed.nodes[one.node], *one.cards)
        for passed in at.facts(SchedulingPassed)
        for one in passed.pods
    ]


@pytest.mark.parametrize("kind", ["gpu_memory_ratio", "gpu_memory"])
async def test_the_policy_packs_shares_that_ask_for_memory_alone(kind):
    """DeviceShare itself would spread them (LeastAllocated)."""
    ask = {kind: 30 if kind == "gpu_memory_ratio" else 4 * GIB}
    found = await cards_of("GpuPacking", ask, ask, ask)

    assert len(set(found)) == 1


async def test_a_share_goes_to_the_fullest_card_that_really_has_the_room():
    """By cores alone the first card is the fullest with enough; its memory is gone."""
    full = {"gpu_core": 60, "gpu_memory_ratio": 100}
    part = {"gpu_core": 30, "gpu_memory_ratio": 30}
    found = await cards_of("GpuPacking", full, part, part)

    assert found[1] == found[2] != found[0]

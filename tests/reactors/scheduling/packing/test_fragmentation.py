"""Fragmentation, and the worth of room, against plain Python."""

import numpy as np
import pytest

from reactors.scheduling.columns.arrivals import Lesson
from reactors.scheduling.columns.pod_shapes import Shape
from reactors.scheduling.packing.catalogue import Given, Typical, fragmentation
from reactors.scheduling.packing.fragmentation import trial
from reactors.scheduling.packing.patterns import room_values
from tests.reactors.scheduling.packing.clusters import gpu_pod, gpu_world

TYPICAL = [
    Typical(3_000, 810, 1, (), 0.4),
    Typical(11_000, 1000, 1, (), 0.2),
    Typical(8_000, 470, 1, ("T4",), 0.2),
    Typical(12_000, 0, 0, (), 0.15),
    Typical(40_000, 1000, 8, ("G2", "G3"), 0.05),
]
NODES = [("a", 64, 9, 8, "G2"), ("b", 9, 9, 4, "T4")]


def plainly(cpu, cards, model):
    """What of a node is fragmented, as the paper says it."""
    total = 0.0
    for one in TYPICAL:
        enough = [card for card in cards if card >= one.milli]
        fits = one.cards and len(enough) >= one.cards and cpu >= one.cpu_milli
        if fits and (not one.models or model in one.models):
            total += one.part * sum(card for card in cards if card < one.milli)
        else:
            total += one.part * sum(cards)
    return total


@pytest.mark.parametrize("shape", [Shape(2_000, 1, 300), Shape(5_000, 2, 1000), Shape(9)])
def test_the_change_is_what_the_paper_says(shape):
    world = gpu_world(NODES)
    columns = world.columns
    for name, card, hundredths in (("a", 0, 47), ("a", 3, 81), ("b", 1, 19)):
        pod = gpu_pod(world, f"{name}{card}", (3_000, 1, hundredths, ()))
        columns.place(pod, name, (card,))
    tried = trial(columns, shape, np.arange(2))
    found = fragmentation(Given(columns, Lesson(0, {}), TYPICAL)).change(shape, tried)

    wanted = []
    for row, card in zip(tried.at, tried.card, strict=True):
        cards = [int(one) for one in columns.cards.each[row] if one >= 0]
        cpu, model = int(columns.resources.free[row, 0]), NODES[row][4]
        before = plainly(cpu, cards, model)
        free = [card] if shape.is_share else [n for n, one in enumerate(cards) if one == 1000]
        for one in free[: shape.cards]:
            cards[one] -= shape.milli
        wanted.append(before - plainly(cpu - shape.cpu_milli, cards, model))
    assert found == pytest.approx(wanted)


def test_without_shares_only_whole_cards_are_worth_anything():
    assert room_values({}).tolist() == [0] * 100 + [1000]


def test_a_leftover_that_no_share_fits_into_is_worth_nothing():
    found = room_values({810: 100, 470: 50})

    assert (found[19], found[47], found[53], found[81], found[100]) == (0, 500, 500, 1000, 1000)


def test_a_share_that_only_fills_leftovers_costs_nothing():
    assert room_values({810: 100, 160: 10})[16] == 0


def test_a_scarce_partner_is_worth_what_it_saves():
    # 650 goes with 320 alone; what is left of the 320 go three to a card.
    found = room_values({650: 50, 320: 200})

    assert (found[32], found[65]) == (333, 667)


def test_room_is_never_worth_more_than_larger_room():
    dice = np.random.default_rng(5)
    for _ in range(20):
        shares = {int(size): int(dice.integers(1, 400)) for size in dice.integers(1, 1000, size=12)}
        found = room_values(shares)

        assert found[0] == 0 and found[-1] == 1000 and (np.diff(found) >= 0).all()

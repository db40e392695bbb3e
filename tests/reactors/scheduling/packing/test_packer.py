"""Packing policies on small clusters: never more than there is, and the same as scoring every node anew."""

import numpy as np
import pytest

from reactors.scheduling.packing.catalogue import POLICIES, Given
from reactors.scheduling.packing.fragmentation import kind_of, typical_pods
from reactors.scheduling.packing.machines import Machine, Machines, Shape
from reactors.scheduling.packing.packer import Packer

NODES = [
    Machine("a", 16_000, 64_000, 2, "T4"),
    Machine("b", 32_000, 64_000, 4, "T4"),
    Machine("c", 96_000, 262_144, 8, "G2"),
    Machine("d", 8_000, 32_000, 1, "G2"),
    Machine("e", 64_000, 131_072, 8, "G3"),
]
SHAPES = [
    Shape(3_000, 5_000, 1, 810),
    Shape(8_000, 16_000, 1, 470),
    Shape(1_000, 2_000, 1, 190),
    Shape(11_000, 32_000, 1, 1000),
    Shape(4_000, 8_000, 1, 320, ("T4",)),
    Shape(6_000, 8_000, 2, 1000, ("G2", "G3")),
    Shape(40_000, 65_536, 8, 1000),
    Shape(12_000, 16_000),
]


def arrivals(count, seed=1):
    return [SHAPES[at] for at in np.random.default_rng(seed).integers(len(SHAPES), size=count)]


def packer(name, machines):
    counts = {kind_of(shape): 10 - at for at, shape in enumerate(SHAPES)}
    return Packer(machines, POLICIES[name](Given(machines, typical_pods(counts), seed=7)))


@pytest.mark.parametrize("name", POLICIES)
def test_a_pod_is_placed_where_it_fits_and_nowhere_only_where_nothing_does(name):
    machines = Machines(NODES)
    placing = packer(name, machines)
    for shape in arrivals(150):
        rows = np.arange(len(NODES))
        fitting = set(rows[machines.fits(shape, rows)].tolist())
        before = machines.cards.copy(), machines.cpu.copy(), machines.memory.copy()
        found = placing.place(shape)

        assert (found is None) == (not fitting)
        if found is not None:
            assert found.row in fitting
            assert len(set(found.cards)) == shape.cards
            taken = before[0][found.row] - machines.cards[found.row]
            assert taken.tolist() == [shape.milli * (at in found.cards) for at in range(8)]
            assert (before[1] - machines.cpu)[found.row] == shape.cpu_milli
            assert (before[2] - machines.memory)[found.row] == shape.memory_mib
            assert machines.cards[machines.cards >= 0].sum() == machines.idle.sum()
    assert machines.cpu.min() >= 0 and machines.memory.min() >= 0 and machines.cards.min() == -1


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ("Random", "Learned")])
def test_what_was_kept_is_what_would_be_scored_anew(name):
    kept, anew = Machines(NODES), Machines(NODES)
    keeping = packer(name, kept)
    for shape in arrivals(120, seed=2):
        assert packer(name, anew).place(shape) == keeping.place(shape)


def test_what_is_learned_is_a_function_of_the_pods_so_far():
    begun = arrivals(80)
    runs = []
    for rest in (arrivals(40, seed=3), arrivals(40, seed=4)):
        placing = packer("Learned", Machines(NODES))
        runs.append([placing.place(shape) for shape in (*begun, *rest)][:80])

    assert runs[0] == runs[1]

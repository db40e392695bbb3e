"""Fragmentation: how much of a node's idle cards typical pods could not use, and how a placement would change it.

Sums are taken in a fixed order, so that a change that is nothing is exactly nothing.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023; ``frag.go`` of
hkust-adsl/kubernetes-scheduler-simulator for the order of the sums; docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from reactors.scheduling.cards import WHOLE
from reactors.scheduling.columns import Ints
from reactors.scheduling.packing.machines import Machines, Shape

Floats: TypeAlias = npt.NDArray[np.float64]
#: (cpu, thousandths of each card, cards, models): what typical pods are told apart by.
Kind: TypeAlias = tuple[int, int, int, tuple[str, ...]]

#: Part of all pods that the typical ones cover.
COVERED = 0.95
#: By ``1 * enough cpu + 2 * enough cards`` (GPU pods), 6 and 7 (CPU-only), 8 (wrong model): the sum that an amount goes to.
_SUM_OF = np.array((0, 1, 3, 1, 0, 0, 5, 4, 6), np.int64)
_SUMS, _SATISFIED, _INACCESSIBLE = 7, 3, 8


class Typical(msgspec.Struct, frozen=True):
    """A kind of pod and its part of all typical pods."""

    cpu_milli: int
    milli: int
    cards: int
    models: tuple[str, ...]
    part: float


def kind_of(shape: Shape) -> Kind:
    """What a shape counts as."""
    return shape.cpu_milli, shape.milli, shape.cards, shape.models


def typical_pods(counts: Mapping[Kind, int]) -> list[Typical]:
    """The most frequent kinds that cover 95 % of the pods, by falling count and, where that is equal, falling kind."""
    total, covered, found = sum(counts.values()), 0, []
    for count, kind in sorted(((count, kind) for kind, count in counts.items()), reverse=True):
        if covered >= COVERED * total:
            break
        covered += count
        found.append((kind, count))
    # Part of the part, in this order: the published scores hang on the last bit.
    return [Typical(*kind, count / total / (covered / total)) for kind, count in found]


class Trial(msgspec.Struct, frozen=True):
    """A pod tried on nodes: each entry is one node before, or one node with the pod on one card."""

    rows: Ints
    #: Position in ``rows`` of each way to place the pod, the card of a share, and what that card has idle.
    at: Ints
    card: Ints
    room: Ints


def trial(machines: Machines, shape: Shape, rows: Ints) -> Trial:
    """The ways to place a pod on ``rows``, which all fit: one for each card of a share, one for any other pod."""
    if shape.is_share:
        at, card = np.nonzero(machines.cards[rows] >= shape.milli)
        return Trial(rows, at, card, machines.cards[rows[at], card])
    at = np.arange(rows.size)
    return Trial(rows, at, np.zeros_like(at), np.full(rows.size, WHOLE, np.int64))


class Fragmentation:
    """Node fragmentation by a list of typical pods."""

    def __init__(self, machines: Machines, typical: Sequence[Typical]) -> None:
        self._machines = machines
        self._sizes: Ints = np.array(sorted({one.milli for one in typical} | {WHOLE}), np.int64)
        where = {int(size): at for at, size in enumerate(self._sizes)}
        self._size_of = np.array([where[one.milli] for one in typical])
        self._cpu: Ints = np.array([one.cpu_milli for one in typical], np.int64)[:, None]
        self._cards: Ints = np.array([one.cards for one in typical], np.int64)[:, None]
        self._part: Floats = np.array([one.part for one in typical])[:, None]
        self._base: Ints = np.where(self._cards == 0, 4, 0)
        self._accessible = np.array(
            [machines.allowed(one.models if one.cards else ()) for one in typical], np.bool_
        )

    def change(self, shape: Shape, tried: Trial) -> Floats:
        """How much less would be fragmented with the pod, for each way, in thousandths of cards."""
        machines, rows, at, sizes = self._machines, tried.rows, tried.at, self._sizes
        cards = machines.cards[rows]
        enough = cards[:, :, None] >= sizes
        counts = enough.sum(axis=1)
        idle = machines.idle[rows]
        below = idle[:, None] - np.where(enough, cards[:, :, None], 0).sum(axis=1)
        taken, room = shape.cards, tried.room[:, None]
        left = room - shape.milli
        was, is_ = room >= sizes, left >= sizes
        after_counts = counts[at] + taken * (is_.astype(np.int64) - was)
        after_below = below[at] + taken * (np.where(is_, 0, left) - np.where(was, 0, room))
        cpu = machines.cpu[rows]
        amounts = self._amounts(
            np.concatenate((cpu, cpu[at] - shape.cpu_milli)),
            np.concatenate((counts, after_counts)).T,
            np.concatenate((below, after_below)).T,
            np.concatenate((idle, idle[at] - shape.total)),
            np.concatenate((machines.model[rows], machines.model[rows[at]])),
        )
        return amounts[: rows.size][at] - amounts[rows.size :]

    def total(self) -> float:
        """What is fragmented on all nodes."""
        machines = self._machines
        enough = machines.cards[:, :, None] >= self._sizes
        below = machines.idle[:, None] - np.where(enough, machines.cards[:, :, None], 0).sum(axis=1)
        counts = enough.sum(axis=1).T
        found = self._amounts(machines.cpu, counts, below.T, machines.idle, machines.model)
        return float(found.sum())

    def _amounts(self, cpu: Ints, counts: Ints, below: Ints, idle: Ints, model: Ints) -> Floats:
        """Fragmentation of nodes; ``counts`` and ``below`` are [sizes x nodes]."""
        enough_cards = counts[self._size_of] >= self._cards
        code = self._base + (cpu >= self._cpu) + 2 * enough_cards
        code = np.where(self._accessible[:, model], code, _INACCESSIBLE)
        amount = np.where(code == _SATISFIED, below[self._size_of], idle) * self._part
        sums = _SUM_OF[code] + np.arange(cpu.size) * _SUMS
        # Adds in the order of the typical pods, sum by sum.
        found = np.bincount(sums.ravel(), amount.ravel(), _SUMS * cpu.size).reshape(-1, _SUMS)
        none, cards, cores, cpu_only, no_cpu, other = found[:, (0, 1, 3, 4, 5, 6)].T
        return np.asarray(none + cards + cores + cpu_only + no_cpu + other)


def levels(change: Floats) -> Ints:
    """A change in thousandths of cards as a score of 0 to 100; no change is 50."""
    return (100 * (1 / (1 + np.exp(-change / WHOLE)))).astype(np.int64)

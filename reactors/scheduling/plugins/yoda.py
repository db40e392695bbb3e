"""Yoda: nodes by the cards in their Scv objects, for pods with the labels ``scv/number``, ``scv/memory`` and ``scv/clock``.

All values are integers and every division cuts off, as in Yoda's own code. A label other than a number counts 0; a negative one
exceeds every node. Memory and clock are counted separately, each over the healthy cards with enough of it.

Source: Yoda-Scheduler, pkg/yoda; docs/scheduling.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import msgspec
import numpy as np

from bus.errors import PermanentError
from projections.cluster import Pod
from reactors.scheduling.columns.crowds import labels_of
from reactors.scheduling.columns.scvs import ScvColumns
from reactors.scheduling.columns.table import Bools, Columns, Ints, Rows
from reactors.scheduling.framework.contract import HIGHEST, ONE_CHANGE, Cycle, Refused, Status
from reactors.scheduling.queueing.hints import Hint

NUMBER, MEMORY, CLOCK = "scv/number", "scv/memory", "scv/clock"
UNKNOWN = "node(s) had no Scv object"
LACKING = "node(s) didn't have enough GPU cards"

_NUMBER = re.compile(r"[+-]?[0-9]+")
#: The range of Go's integers.
_MOST = 2**63 - 1


class NoMemoryError(PermanentError):
    """A node says that its cards have no memory in all, so nobody can say which part of it is free."""


class Largest(msgspec.Struct, frozen=True):
    """The largest value of each property over all fitting cards, at least 1."""

    bandwidth: int
    clock: int
    core: int
    power: int
    free_memory: int
    total_memory: int


class Parts(msgspec.Struct, frozen=True):
    """The summands of a score, for each fitting node."""

    largest: Largest
    cards: Ints
    allocate: Ints
    actual: Ints


class Yoda(msgspec.Struct, frozen=True):
    """Yoda's score. ``formula``: a card's clock is divided by the largest bandwidth (``documented``), or clock (``corrected``)."""

    name: ClassVar[str] = "Yoda"
    is_local: ClassVar[bool] = False
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE})

    formula: Literal["documented", "corrected"] = "corrected"

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without an Scv object, and nodes with too few cards, or too few with the requested values."""
        cards, labels = cycle.columns.facts.scvs(cycle.columns.row_of), labels_of(cycle.pod)
        wanted = _asked(labels, NUMBER) if NUMBER in labels else 1
        lacking = cards.number < wanted
        if MEMORY in labels:
            fits = cards.is_healthy & (cards.free_memory >= _asked(labels, MEMORY))
            lacking |= _count(cards, fits) < wanted
        if CLOCK in labels:
            fits = cards.is_healthy & (cards.clock == _asked(labels, CLOCK))
            lacking |= _count(cards, fits) < wanted
        unknown = ~cards.is_known[rows]
        found = ((UNKNOWN, unknown), (LACKING, lacking[rows] & ~unknown))
        return [Refused(reason, nodes, nodes) for reason, nodes in found if nodes.any()]

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Request less, or measure the node."""
        if not cycle.columns.facts.scvs(cycle.columns.row_of).is_known[row]:
            return f"let Yoda's daemon write an Scv object for {cycle.columns.names[row]}"
        return f"ask for fewer cards, less memory or the clock that the node has ({NUMBER}, {MEMORY}, {CLOCK})"

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """Sum up the cards of the fitting nodes. Raises NoMemoryError if one of them has no memory in all."""
        columns, cards, labels = (
            cycle.columns,
            cycle.columns.facts.scvs(cycle.columns.row_of),
            labels_of(cycle.pod),
        )
        among = np.zeros(len(columns.nodes), np.bool_)
        among[rows] = True
        fits = among[cards.row] & (cards.free_memory >= _asked(labels, MEMORY))
        fits &= cards.clock >= _asked(labels, CLOCK)
        largest = Largest(
            *(
                int(one[fits].max(initial=1))
                for one in (
                    cards.bandwidth, cards.clock, cards.core, cards.power, cards.free_memory,
                    cards.total_memory,
                )
            )
        )  # fmt: skip
        clock = largest.clock if self.formula == "corrected" else largest.bandwidth
        scores = (
            cards.bandwidth * 100 // largest.bandwidth + cards.clock * 100 // clock
            + cards.core * 100 // largest.core + cards.power * 100 // largest.power
            + cards.free_memory * 100 // largest.free_memory * 2
            + cards.total_memory * 100 // largest.total_memory
        )  # fmt: skip
        sums = np.zeros(len(columns.nodes), np.int64)
        np.add.at(sums, cards.row[fits], scores[fits])
        held = _held(columns)[rows]
        total, free = cards.total[rows], cards.free[rows]
        some = np.maximum(total, 1)
        allocate = np.where(held > total, 0, (total - held) * 100 // some * 3)
        cycle.data[self.name] = Parts(largest, sums[rows], allocate, free * 100 // some * 2)
        if not total.all():
            raise NoMemoryError(
                node=columns.names[np.arange(len(columns.nodes))[rows][total == 0][0]]
            )
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The fitting cards, the pods' requests of them, and their measured free memory."""
        parts: Parts = cycle.data[self.name]
        return parts.cards + parts.allocate + parts.actual

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """From the worst, 0, to the best; all equal: 100."""
        lowest, highest = int(scores.min()), int(scores.max())
        lowest -= lowest == highest
        return (scores - lowest) * HIGHEST // (highest - lowest)


def number(text: str) -> int:
    """A label in Yoda's reading: 0 for text without a number, and at most 64 bits."""
    if not _NUMBER.fullmatch(text):
        return 0
    # No text is longer than a label, so this takes no time.
    return min(max(int(text), -_MOST - 1), _MOST)


def _asked(labels: Mapping[str, str], key: str) -> int:
    found = number(labels.get(key, ""))
    return found if found >= 0 else _MOST


def _count(cards: ScvColumns, fits: Bools) -> Ints:
    return np.bincount(cards.row[fits], minlength=cards.number.size)


def _held(columns: Columns) -> Ints:
    """The requests of each node's pods; a pod counts once, whatever its number of cards."""
    found = np.zeros(len(columns.nodes), np.int64)
    for crowd in columns.crowds:
        asked = min(_asked(crowd.labels, MEMORY), 2**41) if MEMORY in crowd.labels else 0
        for row, count in crowd.on.items() if asked else ():
            found[row] += asked * count
    return found


def priority_of(pod: Pod) -> int:
    """``scv/priority``; 0 for none."""
    return number(labels_of(pod).get("scv/priority", ""))

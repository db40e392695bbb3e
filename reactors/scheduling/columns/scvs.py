"""The cards of all Scv objects as flat columns: one entry for each card, with the row of its node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from projections.cluster.devices import Scv
from reactors.scheduling.columns.nodes import Bools, Ints


class ScvColumns(msgspec.Struct, frozen=True):
    """Cards of Scv objects. Memory in MB, clocks in MHz; the first six fields are by card, the rest by node."""

    row: Ints
    is_healthy: Bools
    total_memory: Ints
    free_memory: Ints
    clock: Ints
    core: Ints
    bandwidth: Ints
    power: Ints
    #: Whether a node has an Scv object.
    is_known: Bools
    number: Ints
    total: Ints
    free: Ints


def cards_of(objects: Iterable[Scv], rows: Mapping[str, int]) -> ScvColumns:
    """The cards of all nodes with a row."""
    sums = np.zeros((4, len(rows)), np.int64)
    cards: list[tuple[int, ...]] = []
    for one in objects:
        row = rows.get(one.name)
        if row is None:
            continue
        sums[:, row] = (1, one.card_number, one.total_memory, one.free_memory)
        cards += [
            (row, c.is_healthy, c.total_memory, c.free_memory, c.clock, c.core, c.bandwidth, c.power)
            for c in one.cards
        ]  # fmt: skip
    found = np.array(cards, np.int64).reshape(-1, 8)
    at, healthy, total, free, clock, core, bandwidth, power = (found[:, n] for n in range(8))
    known, number, total_sum, free_sum = sums
    return ScvColumns(
        at, healthy > 0, total, free, clock, core, bandwidth, power, known > 0, number, total_sum, free_sum
    )  # fmt: skip

"""Refusal codes: for each node the first refusing plugin and its reasons as one integer, for counting. Pure but for its codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reactors.scheduling.columns.table import Bools, Ints
from reactors.scheduling.framework.contract import Refused

#: Most reasons of one plugin with a code of their own: bits of an integer.
REASONS = 62


def refused_by(refused: Sequence[Refused], size: int) -> Bools | None:
    """All nodes refused for any reason; None for none."""
    if not refused:
        return None
    found = refused[0].nodes
    for one in refused[1:]:
        found = found | one.nodes
    assert found.size == size
    return found


class RefusalCodes:
    """A code for each plugin and set of reasons met so far. Codes belong to this process; counts by them do not depend on it."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, tuple[str, ...]], int] = {}
        self._refusals: list[tuple[str, tuple[str, ...]]] = [("", ())]

    def coded(self, first: Ints, plugin: str, refused: Sequence[Refused]) -> Ints:
        """``first``, with the codes of ``plugin`` for its refused nodes without a code."""
        for at in range(0, len(refused), REASONS):
            # Of a node with reasons in several parts the first part counts.
            self._code(first, plugin, refused[at : at + REASONS])
        return first

    def _code(self, first: Ints, plugin: str, refused: Sequence[Refused]) -> None:
        sets: Ints = np.zeros(first.size, np.int64)
        for bit, one in enumerate(refused):
            sets |= one.nodes.astype(np.int64) << bit
        sets[first > 0] = 0
        for found in np.unique(sets[sets > 0]).tolist():
            reasons = tuple(one.reason for bit, one in enumerate(refused) if found >> bit & 1)
            code = self._codes.setdefault((plugin, reasons), len(self._refusals))
            if code == len(self._refusals):
                self._refusals.append((plugin, reasons))
            first[sets == found] = code

    def counted(self, first: Ints) -> dict[str, dict[str, int]]:
        """By plugin and reason: the number of nodes; in an order depending on the refusals only."""
        counts: dict[str, dict[str, int]] = {}
        numbers = np.bincount(first, minlength=1)
        for code in np.flatnonzero(numbers[1:]).tolist():
            plugin, reasons = self._refusals[code + 1]
            by_reason = counts.setdefault(plugin, {})
            for reason in reasons:
                by_reason[reason] = by_reason.get(reason, 0) + int(numbers[code + 1])
        return {plugin: dict(sorted(reasons.items())) for plugin, reasons in sorted(counts.items())}

"""Sums over all rows of a derivation, kept while folding: the share of one row, and the changes of a batch.

A late fact changes a row: its old share is taken out and its new share is put in, so a sum always equals its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

#: The primary key of a row of sums.
Group = tuple[Any, ...]

#: The share of one row in each group, in the order of the columns outside the key.
Shares = Callable[[Any], dict[Group, list[int]]]


class Restatement:
    """Differences to the sums of one table, gathered over a batch: group → sums, and its last event."""

    def __init__(self, table: sa.Table, shares: Shares) -> None:
        self.table = table
        self._shares = shares
        self.differences: dict[Group, list[int]] = {}

    def restate(self, before: Any, after: Any, sequence: int) -> None:
        """Take out the shares of ``before`` (None: there are none) and put in those of ``after``, where they differ."""
        taken = {} if before is None else self._shares(before)
        given = self._shares(after)
        if taken == given:
            return
        for group, sums in taken.items():
            if given.get(group) != sums:
                self._apply(group, sums, -1, sequence)
        for group, sums in given.items():
            if taken.get(group) != sums:
                self._apply(group, sums, 1, sequence)

    def _apply(self, group: Group, sums: list[int], sign: int, sequence: int) -> None:
        known = self.differences.get(group)
        if known is None:
            known = self.differences[group] = [0] * (len(sums) + 1)
        for place, amount in enumerate(sums):
            known[place] += sign * amount
        known[-1] = sequence

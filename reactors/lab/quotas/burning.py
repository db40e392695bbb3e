"""Spending of budgets under trial: as metered on record, plus the difference in their quotas' charges.

A meter adds up the ledger's charges for pods, and the lab has no pods for workloads without a run: those spend their quota's
charge. A budget missing on record spends the whole charge of its quota under trial, from the start of the trial, in one period.
Pure but for its own state.

Source: docs/lab.md; docs/quotas.md (budgets).
"""

from __future__ import annotations

import msgspec

from bus.clock import floor_seconds
from bus.events.admissions import Meter, TreeMetered
from projections.quota_trees import Tree
from projections.quota_trees.shape import spent


class _More(msgspec.Struct):
    """Spending beyond the record: ``amount`` in this period up to ``at_s``, and ``rate`` more each second."""

    amount: int = 0
    rate: int = 0
    at_s: int = 0

    def advance(self, to_s: int, resets_s: int) -> None:
        """Advance to a time. A period beginning at ``resets_s`` starts from nothing."""
        if resets_s and self.at_s < resets_s <= to_s:
            self.amount, self.at_s = 0, resets_s
        self.amount += self.rate * max(to_s - self.at_s, 0)
        self.at_s = max(self.at_s, to_s)


class Burning:
    """The spending of a tree under trial, compared with the same tree on record."""

    def __init__(self, tree: Tree, recorded: Tree) -> None:
        self._tree, self._recorded = tree, recorded
        self._more: dict[tuple[str, str], _More] = {}

    def metered(self, fact: TreeMetered) -> TreeMetered:
        """The record's entry as changed by the trial. The record's tree must not have read it yet."""
        found = []
        for meter in fact.meters:
            place = (meter.quota, meter.key)
            more, known = self._more.get(place), self._recorded.meters.get(place)
            if more is not None and known is not None:
                more.advance(meter.at_s, known.resets_s)
                meter = _with(meter, more)
            found.append(meter)
        return msgspec.structs.replace(fact, meters=tuple(found))

    def changed(self, quota: str, at_us: int) -> TreeMetered | None:
        """The meters of a quota after a possible change of its charges, under trial or on record; None if they burn as before."""
        node = self._tree.nodes.get(quota)
        on_record = self._recorded.nodes.get(quota)
        if node is None or not node.spec.cash:
            return None
        at_s, found = floor_seconds(at_us), []
        for key in node.spec.cash:
            place = (quota, key)
            meter = self._recorded.meters.get(place)
            rate = node.self_used.get(key, 0)
            if on_record is not None and key in on_record.spec.cash:
                # An unmetered budget spends as on record: nothing.
                rate = rate - on_record.self_used.get(key, 0) if meter is not None else 0
            more = self._more.get(place) or _More(at_s=at_s)
            if rate == more.rate:
                continue
            more.advance(at_s, meter.resets_s if meter is not None else 0)
            more.rate = rate
            self._more[place] = more
            found.append(_with(_at(meter or Meter(quota, key, 0, 0, at_s), at_s), more))
        return TreeMetered(number=0, meters=tuple(found)) if found else None


def _at(meter: Meter, at_s: int) -> Meter:
    """The same budget, metered at another second."""
    if meter.resets_s and at_s >= meter.resets_s:
        now = spent(meter, 0, at_s)[0]
        return Meter(meter.quota, meter.key, now, meter.rate, at_s)
    return msgspec.structs.replace(meter, spent=spent(meter, 0, at_s)[0], at_s=at_s)


def _with(meter: Meter, more: _More) -> Meter:
    return msgspec.structs.replace(
        meter, spent=max(meter.spent + more.amount, 0), rate=max(meter.rate + more.rate, 0)
    )

"""Other quotas against the record: answers, waiting workloads, and hours as intervals. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.events.admissions import AdmissionDecided, QuotaDeclared
from reactors.lab.amounts import Amount, amount
from reactors.lab.quotas.shape import QUOTA_RULES, Changed, Entry, Limits, Lives, TreePlayed
from reactors.lab.quotas.trial import TreeTrial
from reactors.lab.rules import RULES, Rule


def played(
    journals: Mapping[str, list[Entry]], tried: Limits, first: int = 0, *, until_us: int
) -> dict[Rule, list[TreePlayed]]:
    """What each rule makes of all journals, by tree, up to a moment. Trees of which nothing is tried are as on record."""
    found: dict[Rule, list[TreePlayed]] = {rule: [] for rule in QUOTA_RULES}
    for name, entries in sorted(journals.items()):
        if not any(isinstance(e.fact, QuotaDeclared) and e.fact.quota in tried for e in entries):
            for rule in QUOTA_RULES:
                found[rule].append(TreePlayed(rule, (), (), _as_recorded(entries, first)))
            continue
        lives = Lives(entries)
        for rule in QUOTA_RULES:
            trial = TreeTrial(name, tried, rule, lives, first)
            for entry in entries:
                trial.apply(entry)
            found[rule].append(trial.end(until_us))
    return found


def _as_recorded(entries: list[Entry], first: int) -> dict[str, tuple[int, int]]:
    """By quota how many were admitted, twice."""
    found: dict[str, int] = {}
    for entry in entries:
        fact = entry.fact
        if isinstance(fact, AdmissionDecided) and entry.event.sequence > first:
            is_asked = fact.operation == "CREATE" and fact.child is None and fact.basis is not None
            if is_asked or fact.reason == "released":
                found[fact.quota] = found.get(fact.quota, 0) + (fact.verdict != "refused")
    return {quota: (count, count) for quota, count in found.items()}


class QuotaOutcome(msgspec.Struct, frozen=True):
    """A quota under trial; ``name`` "" = all of them. ``changed`` is by the first rule."""

    name: str
    recorded: int
    tried: int
    changed: tuple[Changed, ...]
    cpu_milli_s: Amount
    gpu_milli_s: Amount

    def count(self, kind: str) -> int:
        """How many workloads were answered otherwise in this way."""
        return sum(one.kind == kind for one in self.changed)

    @property
    def waited_us(self) -> int:
        """How much longer all of them wait together; below 0 = shorter."""
        return sum(one.waited_us for one in self.changed)


def outcomes(found: Mapping[Rule, list[TreePlayed]]) -> list[QuotaOutcome]:
    """Each quota that was asked for anything, by name, and last all of them."""
    likely = found[RULES[0]]
    names = sorted({name for one in likely for name in one.answers})
    return [_outcome(found, name) for name in names] + [_outcome(found, "")]


def _outcome(found: Mapping[Rule, list[TreePlayed]], name: str) -> QuotaOutcome:
    likely = found[RULES[0]]
    answers = [two for one in likely for quota, two in one.answers.items() if name in ("", quota)]
    changed = [c for one in likely for c in one.changed if name in ("", c.workload[0])]
    held = [
        [h for one in found[rule] for h in one.held if name in ("", h.quota)]
        for rule in QUOTA_RULES
    ]
    return QuotaOutcome(
        name,
        sum(recorded for recorded, _ in answers),
        sum(tried for _, tried in answers),
        tuple(sorted(changed, key=lambda one: (one.at_us, one.workload))),
        amount(held, lambda one: one.cpu_milli),
        amount(held, lambda one: one.gpu_milli),
    )

"""Other quotas against the record: answers, waiting workloads, and hours as intervals. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.events.admissions import AdmissionDecided, QuotaDeclared
from reactors.lab.comparison import Group, compare, saved
from reactors.lab.quotas.shape import QUOTA_RULES, Changed, Entry, Limits, Lives, TreePlayed
from reactors.lab.quotas.trial import TreeTrial
from reactors.lab.rules import RULES, Rule


def played(
    journals: Mapping[str, list[Entry]], tried: Limits, first: int = 0, *, until_us: int
) -> dict[Rule, list[TreePlayed]]:
    """The result of each rule on all journals, by tree, up to a moment. Trees without a trial are as on record."""
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
    """By quota the number of admitted workloads, twice."""
    found: dict[str, int] = {}
    for entry in entries:
        fact = entry.fact
        if isinstance(fact, AdmissionDecided) and entry.event.sequence > first:
            is_asked = fact.operation == "CREATE" and fact.child is None and fact.basis is not None
            if is_asked or fact.reason == "released":
                found[fact.quota] = found.get(fact.quota, 0) + (fact.verdict != "refused")
    return {quota: (count, count) for quota, count in found.items()}


class QuotaGroup(Group[Changed], frozen=True):
    """A quota under trial; ``name`` "" = all of them. ``recorded``, ``tried``: admitted workloads."""

    @property
    def waited_us(self) -> int:
        """The sum of longer waits; below 0 = shorter."""
        return sum(one.waited_us for one in self.changes)


def outcomes(found: Mapping[Rule, list[TreePlayed]]) -> list[QuotaGroup]:
    """Each quota with requests, by name, and last all of them."""
    likely = found[RULES[0]]
    answers = {"": (0, 0)}
    for quota, (recorded, tried) in [two for one in likely for two in one.answers.items()]:
        for name in (quota, ""):
            before, after = answers.get(name, (0, 0))
            answers[name] = (before + recorded, after + tried)
    changes = [change for one in likely for change in one.changed]
    changes.sort(key=lambda one: (one.at_us, one.workload))
    spans = [
        [saved(held, "quota") for one in found[rule] for held in one.held] for rule in QUOTA_RULES
    ]
    made = compare(changes, spans, "quota", QuotaGroup, answers=answers)
    return [*made.groups, made.total]

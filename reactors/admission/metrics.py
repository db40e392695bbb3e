"""Metrics of admission: answers, decisions, and the use of each quota. Pure but for its counters.

Quotas and decisions are those of the history as far as this process has read it, so every replica shows the same ones: take
the maximum over replicas, not the sum. Reviews are each process's own (:func:`reactors.webhook.application.reviewed`).

Source: docs/architecture.md (figures that must be 0 are shown).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided
from bus.metrics import Metric, Sample
from projections.engine.parts import Part
from projections.quota_trees import Tree, TreeNode, TreeOverlay
from reactors.engine.journals import Journals


class SavedDecisions(msgspec.Struct):
    """The decisions in a snapshot."""

    counts: dict[tuple[str, str], int]


class DecisionCounts(Part):
    """Counts decisions as they are read. Give :meth:`take` to the journals before they follow."""

    Saved = SavedDecisions
    derived = frozenset({"_cluster"})

    def __init__(self, cluster: str) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._cluster = cluster

    def apply(self, event: Event) -> None:
        """See one event of the history."""
        if event.type == AdmissionDecided.wire_type and event.cluster == self._cluster:
            decided = AdmissionDecided.read(event)
            self.counts[(decided.verdict, decided.reason)] += 1


def figures(journals: Journals, decisions: DecisionCounts, at_s: int) -> Iterator[Metric]:
    """All of them; budgets as they stand at ``at_s``."""
    yield Metric(
        "bursar_admission_decisions_total", "counter",
        "Decisions in the history, by all processes: take the maximum over replicas.",
        [
            Sample(count, {"verdict": verdict, "reason": reason})
            for (verdict, reason), count in sorted(decisions.counts.items())
        ],
    )  # fmt: skip
    yield Metric(
        "bursar_admission_history_sequence", "gauge",
        "The last event that this process has read.", [Sample(journals.sequence)],
    )  # fmt: skip
    yield Metric(
        "bursar_admission_parked_total", "counter",
        "Entries of journals that were none; should be 0.", [Sample(journals.parked)],
    )  # fmt: skip
    yield from _of_quotas(list(journals.trees.values()), at_s)


def _of_quotas(trees: list[Tree], at_s: int) -> Iterator[Metric]:
    def over(amounts: Callable[[TreeNode], dict[str, int]]) -> Iterator[Sample]:
        for tree in trees:
            for node in list(tree.nodes.values()):
                for key, amount in sorted(amounts(node).items()):
                    labels = {"tree": tree.name, "quota": node.name, "key": key}
                    yield Sample(amount, labels)

    gauges = (
        ("used", "What is used: by its own workloads, and claimed by quotas below.", _used),
        ("hard", "The limit, the strictest of all that may hold.", TreeNode.limited),
        ("ungoverned", "What workloads hold that were never admitted with it.", _ungoverned),
    )
    for name, meaning, amounts in gauges:
        unit = "cpu in milli-cores, everything else in whole units"
        yield Metric(f"bursar_quota_{name}", "gauge", f"{meaning} In {unit}.", over(amounts))
    budgets = [
        ({"tree": tree.name, "quota": quota, "key": key}, TreeOverlay(tree).spent(node, key, at_s))
        for tree in trees
        for quota, key in sorted(tree.meters)
        if (node := tree.nodes.get(quota)) is not None
    ]
    for place, name in enumerate(("spent", "limit")):
        yield Metric(
            f"bursar_budget_{name}", "gauge",
            "Of a budget in this period, as it was metered: milli-core-, milli-card- or MiB-seconds.",
            [Sample(amounts[place], labels) for labels, amounts in budgets],
        )  # fmt: skip


def _used(node: TreeNode) -> dict[str, int]:
    keys = {*node.limited(), *node.self_used, *node.claims}
    return {key: node.used(key) for key in keys}


def _ungoverned(node: TreeNode) -> dict[str, int]:
    total: dict[str, int] = {}
    for grant in list(node.grants.values()):
        if grant.is_adopted:
            for key, amount in grant.charge.items():
                total[key] = total.get(key, 0) + amount
    return total

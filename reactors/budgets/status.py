"""What ``kubectl get`` shows of a quota and its budgets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bus.kube.crds.keys import CASH
from projections.budgets import BudgetStatus, Exhaustion
from projections.quota_trees import Node, Tree
from reactors.effectors.quota_status import Condition, Status


def status_of(
    tree: Tree,
    node: Node,
    standings: Mapping[str, BudgetStatus],
    phases: Mapping[str, Exhaustion],
    *,
    at_s: int,
    sequence: int,
    generation: int,
) -> Status:
    """What ``kubectl get`` shall show of a quota. ``standings`` and ``phases`` by key of cash."""
    spec = node.observed or node.spec
    shown = sorted(spec.hard)
    budgets = sorted(standings.items())
    forecasts = [
        second
        for key, one in standings.items()
        if (second := _exhausts_s(phases[key], one, at_s)) is not None
    ]
    return Status(
        name=node.name,
        uid=node.uid,
        hard=spec.hard | {CASH + key: one.limit for key, one in budgets},
        used={key: node.used(key) for key in shown}
        | {CASH + key: one.spent(at_s) for key, one in budgets},
        self_used={key: node.self_used.get(key, 0) for key in shown},
        runtime=tree.elastic.runtime(node.name),
        budget_left={key: one.left(at_s) for key, one in budgets},
        exhausts_s=min(forecasts, default=None),
        conditions=tuple(_conditions(node, phases, at_s)),
        generation=generation,
        moment_s=at_s,
        observed_sequence=sequence,
    )


def _exhausts_s(judged: Exhaustion, standing: BudgetStatus, at_s: int) -> int | None:
    """When it was exhausted, else when it will be."""
    return standing.exhausts_s(at_s) if judged.exhausted_s is None else judged.exhausted_s


def _conditions(node: Node, phases: Mapping[str, Exhaustion], at_s: int) -> Iterable[Condition]:
    problem = (node.observed or node.spec).problem
    if problem:
        yield Condition("Unusable", "True", 0, "InvalidSpec", problem)
    limits = node.limited()
    over = sorted(key for key, limit in limits.items() if node.used(key) > limit)
    yield Condition(
        "Overcommitted", "True" if over else "False", 0, "UsedAboveHard" if over else "Fits",
        f"more is used than allowed: {', '.join(over)}" if over else "",
    )  # fmt: skip
    adopted = [grant for grant in node.grants.values() if grant.is_adopted]
    said = f"{len(adopted)} workloads hold something and were never admitted" if adopted else ""
    yield Condition(
        "Ungoverned",
        "True" if adopted else "False",
        0,
        "Adopted" if adopted else "AllAdmitted",
        said,
    )
    spent = sorted(key for key, one in phases.items() if one.exhausted_s is not None)
    since = min((phases[key].exhausted_s or at_s for key in spent), default=0)
    yield Condition(
        "Exhausted", "True" if spent else "False", since, "BudgetSpent" if spent else "BudgetLeft",
        f"spent: {', '.join(spent)}" if spent else "",
    )  # fmt: skip

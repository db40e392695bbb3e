"""The status of a quota and its budgets for ``kubectl get``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from bus.clock import SECOND_US, format_stamp
from bus.kube.crds.keys import CASH
from projections.budgets import BudgetStatus, Exhaustion
from projections.budgets.forecasts import Forecast
from projections.quota_trees import Tree, TreeNode
from reactors.effectors.quota_status import BizGroupStatus, Condition


def status_of(
    tree: Tree,
    node: TreeNode,
    standings: Mapping[str, BudgetStatus],
    phases: Mapping[str, Exhaustion],
    *,
    at_s: int,
    sequence: int,
    generation: int,
    forecasts: Mapping[str, Forecast | None] = MappingProxyType({}),
) -> BizGroupStatus:
    """The wanted ``kubectl get`` status of a quota. ``standings`` and ``phases`` by key of cash, ``forecasts`` by key."""
    spec = node.observed or node.spec
    shown = sorted(spec.hard)
    budgets = sorted(standings.items())
    exhausts = [
        second
        for key, one in standings.items()
        if (second := _exhausts_s(phases[key], one, at_s)) is not None
    ]
    return BizGroupStatus(
        name=node.name,
        uid=node.uid,
        hard=spec.hard | {CASH + key: one.limit for key, one in budgets},
        used={key: node.used(key) for key in shown}
        | {CASH + key: one.spent(at_s) for key, one in budgets},
        self_used={key: node.self_used.get(key, 0) for key in shown},
        runtime=tree.elastic.runtime(node.name),
        budget_left={key: one.left(at_s) for key, one in budgets},
        exhausts_s=min(exhausts, default=None),
        forecast={key: sentence(one) for key, one in sorted(forecasts.items()) if one is not None},
        conditions=tuple(_conditions(node, phases, at_s)),
        generation=generation,
        moment_s=at_s,
        observed_sequence=sequence,
    )


def sentence(one: Forecast) -> str:
    """A forecast as a person reads it: the likely day and the interval, whole days UTC, and how far such forecasts were off."""
    if one.likely_s is None:
        text = f"likely not; chance {one.chance / 10:.0f} %"
    else:
        latest = _day(one.latest_s) if one.latest_s is not None else "never"
        text = f"likely {_day(one.likely_s)}, {_day(one.earliest_s or one.likely_s)} to {latest}; chance {one.chance / 10:.0f} %"
    return text if one.off_s is None else f"{text}; off by {one.off_s / 86_400:.1f} days"


def _day(second: int) -> str:
    return format_stamp(second * SECOND_US)[:10]


def _exhausts_s(judged: Exhaustion, standing: BudgetStatus, at_s: int) -> int | None:
    """When it was exhausted, else when it will be."""
    return standing.exhausts_s(at_s) if judged.exhausted_s is None else judged.exhausted_s


def _conditions(node: TreeNode, phases: Mapping[str, Exhaustion], at_s: int) -> Iterable[Condition]:
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
    text = f"{len(adopted)} workloads hold something and were never admitted" if adopted else ""
    yield Condition(
        "Ungoverned",
        "True" if adopted else "False",
        0,
        "Adopted" if adopted else "AllAdmitted",
        text,
    )
    spent = sorted(key for key, one in phases.items() if one.exhausted_s is not None)
    since = min((phases[key].exhausted_s or at_s for key in spent), default=0)
    yield Condition(
        "Exhausted", "True" if spent else "False", since, "BudgetSpent" if spent else "BudgetLeft",
        f"spent: {', '.join(spent)}" if spent else "",
    )  # fmt: skip

"""What the ledger says of budgets, brought into the trees' journals, the history and the status of quotas. Pure.

Webhook processes hold no ledger. They read how a budget burns as a linear function of time, which is
exact until the next fact; so a meter is written only when the function changed, not when time passes.

Source: ``house.md`` 3.5; issue 4, item 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bus.events.admissions import Meter, TreeMetered
from bus.events.budgets import BudgetJudged
from bus.resources.keys import CASH
from projections.admissions import Draft, Node, Tree
from projections.admissions.shape import spent
from projections.budgets import Exhaustion, Period, Phase, Rule, Standing
from reactors.effectors.quota_status import Condition, Status

Standings = Mapping[tuple[str, str], Standing]


def metered(draft: Draft, standings: Standings, at_s: int) -> TreeMetered | None:
    """The meters of ``draft``'s tree which no longer say what the ledger says at ``at_s``; None for none.

    ``standings``: (quota, key) to how it stands in the period that holds ``at_s``.
    """
    changed = []
    for (quota, key), standing in sorted(standings.items()):
        known = draft.tree.meters.get((quota, key))
        meter = Meter(
            quota, key, standing.spent(at_s), standing.spend.rate, at_s, standing.credits,
            standing.period.end_s or 0, standing.period.is_granted,
        )  # fmt: skip
        if known is None or not _is_same(known, meter):
            changed.append(meter)
    if not changed:
        return None
    return TreeMetered(number=draft.number, meters=tuple(changed), based_on=draft.tree.sequence)


def _is_same(known: Meter, meter: Meter) -> bool:
    says = spent(known, 0, meter.at_s)[0]
    return (says, known.rate, known.credits, known.resets_s, known.is_granted) == (
        meter.spent, meter.rate, meter.credits, meter.resets_s, meter.is_granted,
    )  # fmt: skip


def judged(
    quota: str, key: str, before: Exhaustion | None, now: Exhaustion, standing: Standing,
    rule: Rule, *, said: Phase | None, based_on: int,
) -> BudgetJudged | None:  # fmt: skip
    """What is decided because a budget came to another phase than was ``said`` last (None: nothing was); None where it is
    as before. A changed rule changes the phase, too.
    """
    phase = now.phase(rule)
    same_period = before is not None and before.period == now.period
    was = said if said is not None and same_period else Phase.OK
    if phase is was:
        return None
    return BudgetJudged(
        quota=quota, key=key, phase=phase, at_s=now.at_s, warned_s=now.warned_s,
        exhausted_s=now.exhausted_s, period_start_s=now.period.start_s,
        period_end_s=now.period.end_s, is_granted=now.period.is_granted,
        spent=standing.spent(now.at_s), limit=standing.limit, rule=rule.on_exhaustion,
        based_on=based_on,
    )  # fmt: skip


def exhaustion_of(fact: BudgetJudged) -> Exhaustion:
    """The judgement that a fact records, to go on from."""
    period = Period(fact.period_start_s, fact.period_end_s, fact.is_granted)
    return Exhaustion(period, fact.at_s, fact.warned_s, fact.exhausted_s)


def status_of(
    tree: Tree,
    node: Node,
    standings: Mapping[str, Standing],
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


def _exhausts_s(judged: Exhaustion, standing: Standing, at_s: int) -> int | None:
    """When it was exhausted, else when it will be."""
    return standing.exhausts_s(at_s) if judged.exhausted_s is None else judged.exhausted_s


def _conditions(node: Node, phases: Mapping[str, Exhaustion], at_s: int) -> Iterable[Condition]:
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

"""Budgets of the ledger, written to the trees' journals and the history. Pure.

Webhook processes hold no ledger. They read the use of a budget as a linear function of time, exact
until the next fact. So a meter is written when this function changes, not when time passes.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bus.events.admissions import Meter, TreeMetered
from bus.events.budgets import BudgetJudged
from projections.budgets import BudgetStatus, Exhaustion, ExhaustionRule, Period, Phase, advance
from projections.quota_trees import TreeOverlay
from projections.quota_trees.shape import spent
from reactors.budgets.state import BudgetState, Evaluated, LedgerRead, Place
from reactors.engine.contract import Trigger

Standings = Mapping[tuple[str, str], BudgetStatus]


def metered(draft: TreeOverlay, standings: Standings, at_s: int) -> TreeMetered | None:
    """The meters of ``draft``'s tree that differ from the ledger's at ``at_s``; None if all agree.

    ``standings``: by (quota, key), the budget's standing in the period of ``at_s``.
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
    quota: str, key: str, before: Exhaustion | None, now: Exhaustion, standing: BudgetStatus,
    rule: ExhaustionRule, *, last: Phase | None, based_on: int,
) -> BudgetJudged | None:  # fmt: skip
    """The judgement after a budget changed from the ``last`` recorded phase (None: there was none) to another; None without a
    change. A changed rule changes the phase, too.
    """
    phase = now.phase(rule)
    same_period = before is not None and before.period == now.period
    was = last if last is not None and same_period else Phase.OK
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
    """The judgement recorded in a fact, as the base of the next."""
    period = Period(fact.period_start_s, fact.period_end_s, fact.is_granted)
    return Exhaustion(period, fact.at_s, fact.warned_s, fact.exhausted_s)


def _before(state: BudgetState, place: Place) -> tuple[Exhaustion, Phase] | None:
    """The last judgement: by this process, an earlier one, or another one since."""
    kept = (state.kept or {}).get(place)
    recorded = state.newest_judgement(place)
    if recorded is not None and (kept is None or recorded.at_s > kept[0].at_s):
        return exhaustion_of(recorded), Phase(recorded.phase)
    return kept


def evaluated(state: BudgetState, read: LedgerRead) -> Evaluated:
    """How far every budget is used up, and its phase."""
    found = {}
    for place, standing in sorted(read.standings.items()):
        before = _before(state, place)
        now = advance(before[0] if before is not None else None, standing, read.at_s)
        found[place] = (now, now.phase(_rule(read, place)))
    return found


def decide(state: BudgetState, trigger: Trigger, policy: None) -> Sequence[BudgetJudged]:
    """A judgement for each budget with another phase than the recorded one, by quota and key."""
    read = trigger.fact
    assert isinstance(read, LedgerRead)
    found = []
    for place, (now, _) in evaluated(state, read).items():
        before, last = _before(state, place) or (None, None)
        fact = judged(
            *place, before, now, read.standings[place], _rule(read, place),
            last=last, based_on=read.sequence,
        )  # fmt: skip
        if fact is not None:
            found.append(fact)
    return found


def _rule(read: LedgerRead, place: Place) -> ExhaustionRule:
    observed = read.quotas[place[0]].observed
    assert observed is not None
    return ExhaustionRule.of(observed.budget)

"""Which budgets came to another phase: decided on what the ledger says at a moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bus.events.budgets import BudgetJudged
from projections.budgets import Exhaustion, Phase, Rule, Standing, advance
from projections.quotas import Quota
from reactors.budgets.rules import judged
from reactors.budgets.state import BudgetState, Place
from reactors.engine.contract import Review, Trigger


class LedgerRead(Review, frozen=True):
    """What the ledger says at ``at_s``, after ``sequence``."""

    at_s: int
    sequence: int
    quotas: Mapping[str, Quota]
    standings: Mapping[Place, Standing]


#: How far a budget is used up, and its phase.
Evaluated = Mapping[Place, tuple[Exhaustion, Phase]]


def evaluated(state: BudgetState, read: LedgerRead) -> Evaluated:
    """How far every budget is used up, and its phase."""
    found = {}
    for place, standing in sorted(read.standings.items()):
        now = advance(state.exhaustions.get(place), standing, read.at_s)
        found[place] = (now, now.phase(_rule(read, place)))
    return found


def decide(state: BudgetState, trigger: Trigger, policy: None) -> Sequence[BudgetJudged]:
    """A judgement for each budget whose phase is another than the recorded one, by quota and key."""
    read = trigger.fact
    assert isinstance(read, LedgerRead)
    found = []
    for place, (now, _) in evaluated(state, read).items():
        fact = judged(
            *place, state.exhaustions.get(place), now, read.standings[place], _rule(read, place),
            said=state.phases.get(place), based_on=read.sequence,
        )  # fmt: skip
        if fact is not None:
            found.append(fact)
    return found


def _rule(read: LedgerRead, place: Place) -> Rule:
    said = read.quotas[place[0]].said
    assert said is not None
    return Rule.of(said.budget)

"""The state of budgets: the newest judgement of each, and judgements without a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import msgspec

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.budgets import BudgetJudged
from bus.events.clock import ClockTicked
from bus.events.decisions import NoticeSettled
from bus.events.vocabulary import Fact
from projections.cluster import ClusterState
from projections.engine.parts import Part
from projections.quota_trees.forest import QuotaTrees
from reactors.budgets import NAME
from reactors.engine.contract import ReviewQuestion

if TYPE_CHECKING:
    from projections.budgets import BudgetStatus, Exhaustion, Phase
    from projections.budgets.forecasts import Forecast
    from projections.quotas import QuotaHistory

#: An older judgement is not news.
FRESH_US = 86_400 * SECOND_US
#: Phases with a report.
NEWS = ("Warned", "Exhausted", "GraceOver")

#: (quota, key of cash).
Place = tuple[str, str]
#: How far each budget is used up, and its phase.
Evaluated: TypeAlias = "Mapping[Place, tuple[Exhaustion, Phase]]"


class LedgerRead(ReviewQuestion, frozen=True):
    """The ledger's budgets at ``at_s``, after ``sequence``."""

    at_s: int
    sequence: int
    quotas: Mapping[str, QuotaHistory]
    standings: Mapping[Place, BudgetStatus]


class SavedBudgets(msgspec.Struct):
    """The part of a snapshot for budgets."""

    judged: dict[Place, BudgetJudged]
    untold: dict[str, tuple[Event, BudgetJudged]]


class BudgetState(Part):
    """Kept by :class:`reactors.engine.contract.State`."""

    Saved = SavedBudgets
    derived = frozenset({"kept", "forecasts", "_taken_away"})

    reads: ClassVar[tuple[type[Fact], ...]] = (BudgetJudged, NoticeSettled, ClockTicked)

    def __init__(self, state: ClusterState, _: QuotaTrees) -> None:
        """Reads nothing of the cluster's state."""
        #: The newest judgements of the history.
        self.judged: dict[Place, BudgetJudged] = {}
        #: The judgements of this process at its newest look; None: it did not look yet.
        self.kept: Evaluated | None = None
        #: The forecasts of this process, by quota and key, budgets with ``cash/``; None = the past is too short.
        self.forecasts: Mapping[Place, Forecast | None] = {}
        #: Budgets with a judgement that were absent at this process's newest look.
        self._taken_away: set[Place] = set()
        #: By id of the event: judgements without a report.
        self.untold: dict[str, tuple[Event, BudgetJudged]] = {}

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event."""
        if isinstance(fact, BudgetJudged):
            self._judged(fact)
            if fact.phase in NEWS:
                self.untold[event.id] = (event, fact)
        elif isinstance(fact, NoticeSettled) and fact.reactor == NAME:
            self.untold.pop(fact.decision, None)
        elif isinstance(fact, ClockTicked):
            late_us = event.time_us - FRESH_US
            for id in [id for id, (one, _) in self.untold.items() if one.time_us < late_us]:
                del self.untold[id]

    def _judged(self, fact: BudgetJudged) -> None:
        place = (fact.quota, fact.key)
        known = self.newest_judgement(place)
        if known is None or fact.at_s >= known.at_s:
            self.judged[place] = fact
            self._taken_away.discard(place)

    def keep(self, judged: Evaluated) -> None:
        """Store the judgements of this process. A budget without one was removed, and begins again if it comes back."""
        self.kept = judged
        self._taken_away = self.judged.keys() - judged.keys()

    def newest_judgement(self, place: Place) -> BudgetJudged | None:
        """The newest judgement of a budget in the history; None where the budget was taken away since."""
        return None if place in self._taken_away else self.judged.get(place)

"""What is known of budgets: how far each was judged to be used up, and which judgements nobody was told of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.budgets import BudgetJudged
from bus.events.clock import ClockTicked
from bus.events.decisions import NoticeSettled
from bus.events.vocabulary import Fact
from projections.budgets import Exhaustion, Phase
from projections.cluster import ClusterState
from reactors.budgets import NAME
from reactors.budgets.rules import exhaustion_of

#: A judgement that is older is no news.
FRESH_US = 86_400 * SECOND_US
#: Phases that somebody is told of.
NEWS = ("Warned", "Exhausted", "GraceOver")

#: (quota, key of cash).
Place = tuple[str, str]


class BudgetState:
    """Kept by :class:`reactors.engine.contract.State`."""

    reads: ClassVar[tuple[type[Fact], ...]] = (BudgetJudged, NoticeSettled, ClockTicked)

    def __init__(self, state: ClusterState) -> None:
        """Nothing of the cluster's state is read."""
        self.exhaustions: dict[Place, Exhaustion] = {}
        #: The phase that was recorded last.
        self.phases: dict[Place, Phase] = {}
        #: By id of the event: judgements that nobody was told of.
        self.untold: dict[str, tuple[Event, BudgetJudged]] = {}

    def take(self, fact: Fact, event: Event) -> None:
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
        known = self.exhaustions.get(place)
        # A process knows its own judgements before it reads them, and may have judged further.
        if known is None or fact.at_s >= known.at_s:
            self.exhaustions[place] = exhaustion_of(fact)
            self.phases[place] = Phase(fact.phase)

    def keep(self, judged: Mapping[Place, tuple[Exhaustion, Phase]]) -> None:
        """Take in what this process judged; a budget that is not among it was taken away, and begins anew if it comes back."""
        self.exhaustions = {place: exhaustion for place, (exhaustion, _) in judged.items()}
        self.phases = {place: phase for place, (_, phase) in judged.items()}

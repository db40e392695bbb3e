"""Rules for gaps in the history: the assumed actions of people under a policy that was not in force.

Two things are not on record. A notebook that was stopped and would not have been: nobody saw whether it would have been used.
And one that would have been stopped and was not: nobody saw whether its owner would have started it again, and when.
Each rule answers both, and the lab plays the history once under each; what they make of the hours is the interval.

Source: docs/lab.md.
"""

from __future__ import annotations

import bisect
from typing import Literal

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.errors import TimestampError
from bus.events.notebooks import NotebookSampled
from bus.events.pods import PodVanished
from bus.events.vocabulary import Fact
from projections import activity

#: ``later``: a notebook that runs on is not used until its owner started it again on record, and one that is stopped is
#: started again at its next activity on record. ``median``: as later, but one that runs on is first used as long as its
#: class is in one run. ``never``: what was stopped would have been ended by its owner just then, and what is stopped is
#: not started again. ``longest``, of quotas alone: what is let in runs as long as any of its quota did.
Rule = Literal["later", "median", "never", "longest"]
#: The first says what is likely.
RULES: tuple[Rule, ...] = ("later", "median", "never")


class Sittings:
    """How long notebooks are used in one run, by namespace, of those that ended so far on record."""

    def __init__(self) -> None:
        self._active_us: dict[str, int] = {}
        self._sorted: dict[str, list[int]] = {}

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event of the record."""
        if isinstance(fact, NotebookSampled):
            found = activity.fold(None, fact, event).active
            if found is not None:
                newest_us = min(found[0], event.time_us)
                self._active_us[fact.uid] = max(self._active_us.get(fact.uid, 0), newest_us)
        elif isinstance(fact, PodVanished) and fact.uid in self._active_us:
            used_us = self._active_us.pop(fact.uid) - _us(fact.scheduled or fact.created)
            for name in (fact.namespace, ""):
                bisect.insort(self._sorted.setdefault(name, []), max(used_us, 0))

    def median_us(self, namespace: str) -> int:
        """The median of a namespace, else of all; 0 where none ended yet."""
        found = self._sorted.get(namespace) or self._sorted.get("") or [0]
        return found[len(found) // 2]


def _us(stamp: str | None) -> int:
    try:
        return parse_stamp(stamp or "")
    except TimestampError:
        # Whose start cannot be read was used for no time at all.
        return 2**62

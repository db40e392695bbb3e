"""Rules for gaps in the history: the assumed actions of people under another policy.

Two things are not on record. A notebook stopped on record and kept under trial might have been used. A notebook stopped under
trial might have been started again by its owner at some time. Each rule answers both, and the lab plays the history once under
each; the spread of the hours is the interval.

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

#: ``later``: a kept notebook is unused until its owner started it again on record, and a stopped one is started again at its next
#: activity on record. ``median``: as later, but a kept notebook is first used for the median run of its namespace. ``never``: the
#: owner of a notebook stopped on record would have ended it just then, and a notebook stopped under trial is not started again.
#: ``longest``, for quotas only: an admitted workload runs as long as the longest run of its quota.
Rule = Literal["later", "median", "never", "longest"]
#: The first rule is the likely one.
RULES: tuple[Rule, ...] = ("later", "median", "never")


class Sittings:
    """The lengths of notebooks' runs, by namespace, of the runs ended so far on record."""

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
        """The median of a namespace, else of all; 0 if none ended yet."""
        found = self._sorted.get(namespace) or self._sorted.get("") or [0]
        return found[len(found) // 2]


def _us(stamp: str | None) -> int:
    try:
        return parse_stamp(stamp or "")
    except TimestampError:
        # A notebook with an unreadable start counts as unused.
        return 2**62

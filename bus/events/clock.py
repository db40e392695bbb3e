"""Facts about time: a tick is an event, so a replay decides the same.

Source: docs/architecture.md.
"""

from __future__ import annotations

from typing import ClassVar

from bus.events.vocabulary import Fact

#: The key of every tick: there is one clock in a history.
LEADER = "leader"
#: Between two ticks, microseconds.
TICK_US = 10_000_000


class ClockTicked(Fact, frozen=True, kw_only=True):
    """A tick: the event's ``time`` is the present, by the acting process's clock. Key: ``leader``."""

    wire_type: ClassVar[str] = "clock.ticked"

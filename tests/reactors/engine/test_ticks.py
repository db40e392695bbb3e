"""Two clusters of one bus say what time it is: each tick is an event of its own."""

import asyncio
from contextlib import suppress

import pytest

from bus.clock import SECOND_US
from bus.events.clock import TICK_US
from bus.memory import MemoryTransport
from reactors.engine.runner import tick


class Stopped:
    """A clock that stands still."""

    def now_us(self):
        """Microseconds."""
        return 1_790_000_000_000_000


async def test_ticks_of_two_clusters_do_not_share_an_id():
    """They did: the second cluster's process ended with an id used twice."""
    transport = MemoryTransport()
    for cluster in ("one", "one", "other"):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await tick(transport, Stopped(), cluster)

    assert [event.cluster for event in transport.events] == ["one", "other"]


class Slept(MemoryTransport):
    """A clock that goes on while a program sleeps and publishes: each sleep ends so much early, or the clock is set back then."""

    def __init__(self, early_us):
        super().__init__()
        self.us, self._early_us, self.longest = 1_790_000_003_000_000, early_us, 0.0

    def now_us(self):
        """Microseconds."""
        return self.us

    async def publish(self, events, *, expect=None):
        self.us += 3_000
        return await super().publish(events, expect=expect)

    async def sleep(self, seconds):
        self.longest = max(self.longest, seconds)
        if seconds:
            self.us += round(seconds * SECOND_US) - self._early_us.pop(0)


HOUR_US = 3_600 * SECOND_US


@pytest.mark.parametrize(
    ("early_us", "numbers"),
    [
        ([500] * 6, [0, 1, 2, 3, 4, 5, 6]),
        ([0] * 5, [0, 1, 2, 3, 4, 5]),
        ([0, HOUR_US, 0, -HOUR_US, 0], [0, 1, -358, -357, 4, 5]),
    ],
    ids=["woken early", "in time", "set back and on"],
)
async def test_every_ten_seconds_have_a_tick(early_us, numbers, monkeypatch):
    """Who woke a moment early said the last tick again, and slept past the next: ticks came late, or not at all."""
    clock = Slept(early_us)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    with pytest.raises(IndexError):
        await tick(clock, clock, "one")

    said = [event.time_us for event in clock.events]
    assert [one // TICK_US - said[0] // TICK_US for one in said] == numbers
    assert max(one % TICK_US for one in said[1:]) < 0.01 * SECOND_US, "at their beginning"
    assert clock.longest <= 10

"""Two clusters of one bus say what time it is: each tick is an event of its own."""

import asyncio
from contextlib import suppress

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

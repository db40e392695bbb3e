"""Observations that say their number, written and read while a server is hurt."""

import asyncio

import msgspec

from bus.envelope import Event
from bus.errors import (
    BusUnavailableError,
    PublishUnknownError,
)


def said(number, **changes):
    event = Event(
        "c1",
        "pod.observed",
        f"pod-{number % 50}",
        f"uid-{number}/1",
        "watch",
        1_700_000_000_000_000 + number,
        b'{"n":%d,"pad":"%s"}' % (number, b"x" * 600),
    )
    return msgspec.structs.replace(event, **changes)


async def publish_on(bus, first, acked, enough):
    """Publish `first`, `first` + 2 … in small batches until `enough`; what the bus answered goes to `acked`."""
    while not enough.is_set():
        part = [said(n) for n in range(first, first + 80, 2)]
        first += 80
        while True:
            try:
                acked.update(zip((e.id for e in part), await bus.publish(part), strict=True))
                break
            except (PublishUnknownError, BusUnavailableError):
                await asyncio.sleep(0.05)


async def read_until_last(bus):
    seen = []
    async for part in bus.read(after=0, batch=100):
        seen += part
        if part[-1].id == "last":
            break
    return seen

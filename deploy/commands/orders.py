"""Orders of a person: they go onto the bus as facts, and reactors act on them: a pause, or the undoing of a cull.

Source: docs/architecture.md.
"""

from __future__ import annotations

import asyncio

from bus.clock import SystemClock
from bus.envelope import Event
from bus.events.decisions import EffectSettled, Restore, RestoreAsked
from bus.events.policies import PauseChanged
from bus.transport import Transport
from deploy.runtime.bootstrap import bus
from deploy.settings.shape import Settings

#: The key of a pause: it is one for all reactors.
REACTORS = "reactors"


async def pause(settings: Settings, *, is_paused: bool, author: str, reason: str) -> int:
    """Pause all reactors, or let them go on; the sequence of the order. Raises the bus's errors."""
    fact = PauseChanged(is_paused=is_paused, author=author, reason=reason)
    now_us = SystemClock().now_us()
    event = fact.event(
        cluster=settings.cluster.name, key=REACTORS, id=f"{fact.wire_type}/{now_us}",
        source=f"cli/{author}", time_us=now_us,
    )  # fmt: skip
    async with bus(settings) as opened:
        (sequence,) = await opened.transport.publish([event])
    return sequence


async def undo(
    settings: Settings, decision: str, *, author: str, seconds: float
) -> EffectSettled | None:
    """Request the undoing of a cull, and return its outcome within ``seconds``; None = none yet."""
    now_us = SystemClock().now_us()
    event = RestoreAsked(decision=decision, author=author).event(
        cluster=settings.cluster.name, key=decision, id=f"{RestoreAsked.wire_type}/{now_us}",
        source=f"cli/{author}", time_us=now_us,
    )  # fmt: skip
    async with bus(settings) as opened:
        (sequence,) = await opened.transport.publish([event])
        try:
            async with asyncio.timeout(seconds):
                return await _settled(opened.transport, event, sequence)
        except TimeoutError:
            return None


async def _settled(transport: Transport, asked: Event, sequence: int) -> EffectSettled:
    restore = ""
    async for events in transport.read(after=sequence, linger_seconds=0.0):
        for event in events:
            if event.cluster != asked.cluster:
                continue
            if event.type == Restore.wire_type and event.key == asked.key:
                restore = event.id
            elif event.type == EffectSettled.wire_type and event.key == restore:
                return EffectSettled.read(event)
    raise AssertionError("live reading never ends")

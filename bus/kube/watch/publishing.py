"""Publishes the observations of a source: all, in order, however long the bus is away.

Source: docs/architecture.md; docs/wrong-input.md A30.
"""

from __future__ import annotations

from collections.abc import Callable

from bus.crashpoints import crashpoint
from bus.envelope import Event
from bus.errors import DuplicateIdError, RetryableError
from bus.kube.watch.backoff import Backoff
from bus.kube.watch.contract import ReflectorSettings, ReflectorState
from bus.kube.watch.lines import with_distinct_ids
from bus.transport import Transport


class EventPublisher:
    """The writing half of a reflector. It counts in the reflector's ``state``."""

    def __init__(
        self,
        transport: Transport,
        state: ReflectorState,
        settings: ReflectorSettings,
        waits: Backoff,
        vanished: Callable[[Event], object] | None,
    ) -> None:
        """``vanished`` is called after such an event was published."""
        self._transport = transport
        self._state = state
        self._window = settings.window_events
        self._vanished = vanished
        self._waits = waits

    async def publish(self, events: list[Event]) -> None:
        """Publish all, however long it takes."""
        for start in range(0, len(events), self._window):
            part = events[start : start + self._window]
            await self._stored(part)
            self._state.published += len(part)
            for event in part:
                if self._vanished and event.type.endswith(".vanished"):
                    self._vanished(event)

    async def _stored(self, part: list[Event]) -> None:
        attempts = 0
        while True:
            try:
                crashpoint("source.before_publish")
                await self._transport.publish(part)
                crashpoint("source.after_publish")
                return
            except DuplicateIdError as error:
                part = with_distinct_ids(part, error)
            except RetryableError as error:
                # The same ids again: an unacknowledged stored event is not stored twice. The error has the shortest
                # wait, and a duplicate changes the published events: no loop of tenacity does both.
                attempts += 1
                self._state.trouble = str(error)
                await self._waits.sleep(max(error.delay_seconds, self._waits.growing(attempts)))

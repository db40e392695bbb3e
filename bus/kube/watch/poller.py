"""Follows a kind without watch: reads it completely, publishes the news, and waits.

Vanished objects are reported after a complete list; an empty list after many objects needs a second one. It waits,
backs off and gives up as a reflector does.

Source: docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import NoReturn

from bus.clock import Clock, ServerClock
from bus.envelope import Event
from bus.errors import (
    MalformedJsonError,
    ObservationError,
    PermissionDeniedError,
    RetryableError,
    WrongClockError,
)
from bus.kube.watch.backoff import Backoff
from bus.kube.watch.contract import (
    Cluster,
    GoneError,
    ReflectorSettings,
    ReflectorState,
    Source,
)
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.observing import Observing
from bus.kube.watch.paging import pages
from bus.kube.watch.publishing import EventPublisher
from bus.kube.watch.seen_versions import SeenVersions
from bus.transport import Transport


class Poller:
    """Follows one source of one cluster: :meth:`run` it once, as a task, cancelled to end it."""

    def __init__(
        self,
        source: Source,
        cluster: Cluster,
        transport: Transport,
        clock: Clock,
        *,
        name: str = "default",
        labels: LabelPolicy | None = None,
        settings: ReflectorSettings | None = None,
        known: Mapping[str, str] | None = None,
        vanished: Callable[[Event], object] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """As those of a reflector; ``source`` says how it is polled."""
        assert source.polling is not None, "what is watched has a reflector"
        self.state = ReflectorState()
        self._source, self._polling, self._cluster = source, source.polling, cluster
        self._clock = clock if isinstance(clock, ServerClock) else ServerClock(clock)
        self._settings = settings or ReflectorSettings()
        #: Uids of published and existing objects.
        self._there = set(known or {})
        self._known = SeenVersions(known or {}, every_version=source.every_version)
        self._observing = Observing(source, labels or LabelPolicy(), self.state, self._known, name)
        self._waits = Backoff(self._settings, self.state, sleep, jitter)
        self._saying = EventPublisher(transport, self.state, self._settings, self._waits, vanished)
        self._denied_at: float | None = None
        self._asked = asyncio.Event()
        self._was_empty = False

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises PermissionDeniedError for a missing permission,
        NotInstalledError for a missing kind, and permanent errors of the bus.
        """
        while True:
            try:
                await self._read()
                await self._rest()
            except (GoneError, MalformedJsonError, ObservationError) as error:
                await self._waits.back_off(error)
            except PermissionDeniedError as error:
                now = time.monotonic()
                self._denied_at = now if self._denied_at is None else self._denied_at
                if now - self._denied_at >= self._settings.denied_seconds:
                    raise
                await self._waits.back_off(error)
            except RetryableError as error:
                self.state.wrong_clock = str(error) if isinstance(error, WrongClockError) else ""
                await self._waits.back_off(error, error.delay_seconds)

    def relist(self, reason: str) -> None:
        """Asks for a list now, also while the next one is waited for."""
        self._asked.set()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._polling.seconds):
                await self._asked.wait()
        except TimeoutError:
            return

    async def _read(self) -> None:
        """Publishes the news of a list, and its missing objects."""
        reason = "asked" if self._asked.is_set() else "period"
        self._asked.clear()
        self.state.relists[reason] += 1
        there = set[str]()
        is_complete = True
        asked_us = self._clock.own_us()
        self._observing.begin_list()
        given = pages(self._cluster, self._source.path, limit=self._settings.page_size)
        async with aclosing(given):
            async for page in given:
                received_us, events = self._clock.checked_us(), list[Event]()
                for item in page.items:
                    record = self._observing.record("LISTED", item, received_us)
                    event, uid = self._observing.item(record)
                    # An unreadable object may be one of the seemingly vanished ones.
                    is_complete = is_complete and bool(uid)
                    there.add(uid)
                    if self._observing.is_news(event):
                        events.append(event)
                await self._saying.publish(events)
                self._there |= there - {""}
        self._observing.end_list()
        self._heard(asked_us)
        is_doubted = not there and len(self._there) >= self._settings.emptied_from
        if is_complete and (self._was_empty or not is_doubted):
            await self._left(self._there - there)
        self._was_empty = not there

    async def _left(self, uids: set[str]) -> None:
        """These are there no more."""
        now_us = self._clock.checked_us()
        raws = (self._polling.gone(uid, now_us) for uid in sorted(uids))
        gone = [self._observing.record("DELETED", raw, now_us) for raw in raws]
        events = [self._observing.translated(record) for record in gone]
        await self._saying.publish([event for event in events if self._observing.is_news(event)])
        self._there -= uids

    def _heard(self, asked_us: int) -> None:
        self.state.heard_us = self._clock.now_us()
        self.state.offset_us = self._clock.offset_us
        self.state.listed_us = asked_us + self._clock.offset_us
        self.state.trouble = self.state.wrong_clock = ""
        self._waits.failures, self._denied_at = 0, None

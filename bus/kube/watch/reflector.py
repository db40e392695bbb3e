"""Follows one kind of object: list, then watch from the list's version, for ever.

Everything observed is published, and nothing is dropped: while the bus is away the loop waits, and
the watch with it. The rules, each with the row of the catalogue it answers:

- A list is read at the start, after a lost version (A3), after silence (A27), after an unreadable record (A1, A2),
  and every ten minutes. A watch may lose a delete unnoticed. The watch then resumes from its own version, not from
  the list: events in between are still reported, delete stamps too.
- The list of every ten minutes reads metadata only, unless something is unsettled: it proves existence, not
  content. If it names versions ahead of the watch, it is published after the watch reached them. If the watch
  passes them without a report, a list of objects follows.
- Only a complete list proves absence. These do not: a list broken off or expired between its pages (A13), a
  truncated one (A15), one older than the watch (P23), and an empty one without a second empty one (A14).
- A bound pod never moves to another node. The first record of a move is parked and a list is requested, at most
  once in ten minutes; an accepted list is accepted in this too (A22).
- A version goes forward only (A5, A12). The same version of an object is published once (A7).
- Times are by the API server's clock. An implausible clock is ignored; a clock that was set waits for a list.
- Refusals: 410 lists again; overload and outage back off with jitter, doubling to 30 s; a permission missing for 60
  s ends the loop with its name (A4).

Source: docs/reliability.md; kubespawner's and client-go's
reflectors.
"""

from __future__ import annotations

import asyncio
import random
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
from bus.kube.watch.changes import Changes
from bus.kube.watch.contract import (
    AnswerTooLargeError,
    Cluster,
    GoneError,
    ReflectorSettings,
    ReflectorState,
    Source,
)
from bus.kube.watch.heartbeats import Heartbeats
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.listing import Listing, ListReader
from bus.kube.watch.lists import listed
from bus.kube.watch.observing import Observing
from bus.kube.watch.publishing import EventPublisher
from bus.kube.watch.schedule import ListSchedule
from bus.kube.watch.seen_versions import SeenVersions, newer
from bus.transport import Transport


class Reflector:
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
        """``name`` is the cluster's in subjects. ``known`` maps uid to resourceVersion of published objects, so a
        restart does not repeat them. ``vanished`` is called after such an event was published: pods are listed
        again when their namespace is deleted (A24). ``jitter`` gives a number from 0 to 1.
        """
        self.state = ReflectorState()
        self._source = source
        self._cluster = cluster
        self._clock = clock if isinstance(clock, ServerClock) else ServerClock(clock)
        self._settings = settings or ReflectorSettings()
        self._known = SeenVersions(
            known or {}, every_version=source.every_version, is_bound=source.is_bound
        )
        self._observing = Observing(source, labels or LabelPolicy(), self.state, self._known, name)
        self._heartbeats = Heartbeats(source, name, self._clock, self._settings)
        self._jitter = jitter
        self._waits = Backoff(self._settings, self.state, sleep, jitter)
        self._saying = EventPublisher(transport, self.state, self._settings, self._waits, vanished)
        self._denied_at: float | None = None
        self._schedule = ListSchedule(self._settings)
        self._changes = Changes(source, self._observing, self._known, self.state, self._schedule)
        self._lists = ListReader(
            source, cluster, self._observing, self._known, self._saying, self._clock, self._settings
        )
        self._unaccepted = 0
        self._doubted = False
        #: A list of metadata ahead of the watch, and its request time.
        self._unproven: tuple[Listing, int] | None = None

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises PermissionDeniedError for a missing permission, and permanent
        errors of the bus.
        """
        while True:
            try:
                if self._schedule.rest_seconds <= 0:
                    await self._list()
                if self.state.version:
                    await self._watch()
                else:
                    await self._waits.sleep(max(self._schedule.rest_seconds, 0.0))
            except GoneError as error:
                self._heartbeats.unconfirmed()
                self.state.version = ""
                self._schedule.want("gone")
                await self._waits.back_off(error)
            except PermissionDeniedError as error:
                now = self._schedule.now()
                self._denied_at = now if self._denied_at is None else self._denied_at
                if now - self._denied_at >= self._settings.denied_seconds:
                    raise
                await self._waits.back_off(error)
            except RetryableError as error:
                self.state.wrong_clock = str(error) if isinstance(error, WrongClockError) else ""
                await self._waits.back_off(error, error.delay_seconds)

    def relist(self, reason: str) -> None:
        """Asks for a list at once, also while the watch is waiting; soon, if there has just been one."""
        self._schedule.hasten(reason)

    # Lists.

    async def _list(self) -> None:
        """Publishes every unknown object, then, if the list is accepted, the list itself."""
        reason = self._schedule.begin()
        # Its content is known except for lines about to come from the watch, unless something is unsettled.
        is_settled = bool(self.state.version) and not (
            self._known.awaits or self.state.unread_count
        )
        metadata_only = reason == "period" and is_settled
        self._unproven = None
        self.state.relists[reason] += 1
        # The offset of this clock is known when the list is there.
        asked_us = self._clock.own_us()
        try:
            found = await self._lists.read(metadata_only=metadata_only)
        except (RetryableError, PermissionDeniedError):
            self._schedule.want(reason)
            raise
        except GoneError as error:
            self._lists.expired_in_a_row += 1
            self._schedule.want("expired")
            return await self._waits.back_off(error)
        except (MalformedJsonError, ObservationError) as error:
            if isinstance(error, AnswerTooLargeError):
                self._lists.shrink()
            self._schedule.want("unreadable")
            return await self._waits.back_off(error)
        asked_us += self._clock.offset_us
        self._heard()
        doubt = self._doubt(found)
        if not doubt and metadata_only and not self._known.compare(found.versions or {}):
            doubt = "contradicted"
        if doubt:
            self._unaccepted += 1
            self._heartbeats.unconfirmed()
            self._schedule.want(doubt, self._waits.growing(self._unaccepted))
        elif metadata_only and self._known.awaits:
            # It is published after all its objects, as a list of objects is.
            self._known.keep_only(found.versions or {})
            self._unproven = found, asked_us
            self._schedule.want("missed", self._settings.silence_seconds)
        else:
            self._known.keep_only(found.versions or {})
            await self._believe(found, asked_us, reason)
        # Otherwise the watch resumes from its own version, and reports the events before this list.
        if not self.state.version:
            self.state.version = found.version

    def _doubt(self, found: Listing) -> str:
        """Why a list is not accepted yet; "" when it is. The second complete one in doubt is."""
        if found.versions is None:
            return "partial"
        if self._doubted:
            return ""
        if newer(self.state.version, found.version):
            doubt = "older"
        elif not found.versions and len(self._known) >= self._settings.emptied_from:
            doubt = "emptied"
        else:
            return ""
        self._doubted = True
        return doubt

    async def _believe(self, found: Listing, asked_us: int, reason: str) -> None:
        version, uids = found.version, found.versions or {}
        for event in found.moved:
            self._known.believe(event)
        await self._saying.publish([one for one in found.moved if self._observing.is_news(one)])
        if self._source.list_fact and (self._source.says_every_list or reason != "period"):
            parts = listed(
                self._source.list_fact,
                uids,
                name=self._source.kind,
                resource_version=version,
                time_us=asked_us,
                cluster=self._observing.name,
                source=self._observing.published_by,
            )
            await self._saying.publish(parts)
        if newer(self.state.version, version):
            # Two lists agree: the store was put back to an older state, and counts on from there.
            self.state.version = version
        self._doubted, self._unaccepted = False, 0
        self._lists.grow()
        self.state.listed_us = asked_us
        self._heartbeats.listed(self._schedule.now())
        self._schedule.want("period", self._settings.relist_seconds * (1 - 0.1 * self._jitter()))

    async def _prove(self, found: Listing, asked_us: int) -> None:
        """The watch reached a list of metadata: it is accepted if the watch reported its versions."""
        self._unproven = None
        if self._known.awaits:
            self._schedule.want("missed")
        else:
            self._schedule.proven()
            await self._believe(found, asked_us, "period")

    # The watch.

    async def _watch(self) -> None:
        """Publishes changes until a list is due, the connection ends, or it is silent too long."""
        heard = False
        async with aclosing(
            self._cluster.watch(self._source.path, version=self.state.version)
        ) as stream:
            while (rest := self._schedule.rest_seconds) > 0:
                try:
                    async with asyncio.timeout(
                        min(self._settings.silence_seconds, rest)
                    ) as self._schedule.waiting:
                        chunk = await anext(stream)
                except StopAsyncIteration:
                    # Servers end watches now and then; one that ends each at once is in trouble.
                    return None if heard else await self._waits.back_off("the watch ended at once")
                except TimeoutError:
                    if self._schedule.rest_seconds > 0.01:
                        self._schedule.want("silence")
                    return None
                finally:
                    self._schedule.waiting = None
                began = self._schedule.now()
                taken = await self._take(chunk)
                # Only now: a chunk may hold nothing but a refusal.
                heard = True
                self._heard()
                self._waits.failures = 0
                if taken < self._settings.window_events:
                    spent = self._schedule.now() - began
                    linger = self._settings.linger_seconds
                    if self._settings.is_urgent:
                        linger = min(linger, 2 * spent)
                    await self._waits.sleep(max(linger - spent, 0.0))

    async def _take(self, chunk: list[bytes]) -> int:
        """Publishes the events in the lines of ``chunk``, and moves past them. Returns the number of events."""
        if self._clock.has_stepped():
            # The watch goes on before this chunk when a list has measured the clock again.
            self._schedule.want("clock")
            return 0
        received_us = self._clock.checked_us()
        events, failure = self._changes.read(chunk, received_us)
        if failure is None and self._schedule.reason == "period":
            now, is_quiet = self._schedule.now(), not events
            events += self._heartbeats.due(now, received_us, self.state.version, is_quiet=is_quiet)
        await self._saying.publish(events)
        if failure is not None:
            raise failure
        if self._unproven is not None and not newer(self._unproven[0].version, self.state.version):
            await self._prove(*self._unproven)
        return len(events)

    # Fields of both.

    def _heard(self) -> None:
        self.state.heard_us = self._clock.now_us()
        self.state.offset_us = self._clock.offset_us
        self.state.trouble = self.state.wrong_clock = ""
        self._denied_at = None

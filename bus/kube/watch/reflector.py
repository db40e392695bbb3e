"""The loop that follows one kind of object: list, then watch from the list's version, for ever.

Everything observed is published, and nothing is dropped: while the bus is away the loop waits, and
the watch with it. The rules, each with the row of the catalogue it answers:

- A list is asked for at the start, after a version is gone (A3), after silence (A27), after a
  record that could not be read (A1, A2), and every ten minutes, since a watch may lose a delete and
  not know. A watch then goes on from where it was, not from the list: what happened in between is
  still told, delete stamps too.
- Only a complete list says who is gone: not one that broke off or expired between its pages (A13),
  not a truncated one (A15), not one older than what was watched (P23), and an empty one only when a
  second agrees (A14).
- A bound pod never moves to another node. The first record that says so is parked and listed for,
  at most once in ten minutes; a list that is believed is believed in this too (A22).
- A version goes forward only (A5, A12). The same version of an object is said once (A7).
- Times are by the API server's clock. A clock that cannot be right says nothing; one that was set waits for a list.
- Refusals: 410 lists again; overload and outage back off with jitter, doubling to 30 s; a missing
  permission that lasts 60 s ends the loop with its name (A4).

Source: docs/reliability.md; kubespawner's and client-go's
reflectors.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import NoReturn

from bus.clock import Clock, ServerClock
from bus.envelope import Event
from bus.errors import (
    BursarError,
    MalformedJsonError,
    ObservationError,
    PermissionDeniedError,
    RetryableError,
    WrongClockError,
)
from bus.kube.watch import lines, records
from bus.kube.watch.backoff import Backoff
from bus.kube.watch.contract import (
    AnswerTooLargeError,
    Cluster,
    GoneError,
    ReflectorSettings,
    ReflectorState,
    Source,
    resource_of,
)
from bus.kube.watch.heartbeats import Heartbeats
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.lists import listed
from bus.kube.watch.observing import Observing
from bus.kube.watch.paging import pages
from bus.kube.watch.publishing import EventPublisher
from bus.kube.watch.records import LONGEST_ID, Record
from bus.kube.watch.seen_versions import SeenVersions, newer
from bus.transport import Transport

#: Versions that may go back in a row before the watch itself is doubted (A12).
MOST_STALE = 3
#: Lists that may expire between their pages before one is asked for in a single page (A13).
MOST_EXPIRED = 2
#: Shortest time between two lists because of a type of record that nobody knows (A2), and between
#: two because of a pod that moved (A22).
SELDOM_SECONDS = 600.0

_MOVED = ObservationError("a bound object moved to another node")


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
        """``name`` is the cluster's in subjects. ``known``: uid to resourceVersion of what is in
        the history already, so that a restart does not say it again. ``vanished`` is called after
        such an event was published: pods are listed again when their namespace goes (A24).
        ``jitter`` gives a number from 0 to 1.
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
        self._due, self._due_at, self._listed_at = "start", 0.0, float("-inf")
        self._waiting: asyncio.Timeout | None = None
        self._seldom_until: dict[str, float] = {}
        self._stale_in_a_row = self._expired_in_a_row = self._unbelieved = 0
        self._doubted = False
        self._page_size = self._settings.page_size

    async def run(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises PermissionDeniedError when a permission stays
        missing, and what the bus raises when trying again would be wrong.
        """
        while True:
            try:
                if self._now() >= self._due_at:
                    await self._list()
                if self.state.version:
                    await self._watch()
                else:
                    await self._waits.sleep(max(self._due_at - self._now(), 0.0))
            except GoneError as error:
                self._heartbeats.doubted()
                self.state.version = ""
                self._want("gone")
                await self._waits.back_off(error)
            except PermissionDeniedError as error:
                self._denied_at = self._now() if self._denied_at is None else self._denied_at
                if self._now() - self._denied_at >= self._settings.denied_seconds:
                    raise
                await self._waits.back_off(error)
            except RetryableError as error:
                self.state.wrong_clock = str(error) if isinstance(error, WrongClockError) else ""
                await self._waits.back_off(error, error.delay_seconds)

    def relist(self, reason: str) -> None:
        """Asks for a list at once, also while the watch is waiting; soon, if there has just been one."""
        self._want(reason, max(self._listed_at + self._settings.apart_seconds - self._now(), 0.0))
        if self._waiting is not None and self._due_at <= self._now():
            # Too late to end it where it ends by itself.
            with suppress(RuntimeError):
                self._waiting.reschedule(self._now())

    # Lists.

    async def _list(self) -> None:
        """Publishes every object that is not known, then, if the list is believed, who is there."""
        reason = self._due
        self._due, self._due_at = "period", float("inf")
        self.state.relists[reason] += 1
        # The offset of this clock is known when the list is there.
        asked_us = self._clock.own_us()
        self._listed_at = self._now()
        try:
            version, uids, moved = await self._pages()
        except (RetryableError, PermissionDeniedError):
            self._want(reason)
            raise
        except GoneError as error:
            self._expired_in_a_row += 1
            self._want("expired")
            return await self._waits.back_off(error)
        except (MalformedJsonError, ObservationError) as error:
            if isinstance(error, AnswerTooLargeError):
                self._page_size = max(self._page_size // 8, 1)  # a few pods of 9 MiB each
            self._want("unreadable")
            return await self._waits.back_off(error)
        self._observing.end_list()
        self._expired_in_a_row = 0
        asked_us += self._clock.offset_us
        self._heard()
        doubt = "partial" if uids is None else self._doubt(version, uids)
        if uids is not None and not doubt:
            await self._believe(version, uids, moved, asked_us, reason)
        else:
            self._unbelieved += 1
            self._heartbeats.doubted()
            self._want(doubt, self._waits.growing(self._unbelieved))
        # Otherwise the watch goes on from where it was, and tells what happened before this list.
        if not self.state.version:
            self.state.version = version

    async def _pages(self) -> tuple[str, set[str] | None, list[Event]]:
        """The list's version, and the uids in it: None where it is not complete; says its news.

        Third what moved to another node, which is not said yet.
        """
        uids: set[str] = set()
        moved: list[Event] = []
        self._observing.begin_list()
        is_whole = self._page_size == self._settings.page_size
        limit = 0 if self._expired_in_a_row >= MOST_EXPIRED and is_whole else self._page_size
        version, complete, remaining = "", True, 0
        async with aclosing(pages(self._cluster, self._source.path, limit=limit)) as given:
            async for page in given:
                if not 0 < len(page.version) <= LONGEST_ID or version not in ("", page.version):
                    complete = False
                else:
                    version = page.version
                received_us, remaining = self._clock.checked_us(), page.remaining
                events = []
                for item in page.items:
                    event, uid = self._observing.item(
                        self._observing.record("LISTED", item, received_us)
                    )
                    complete = complete and bool(uid)
                    uids.add(uid)
                    if self._known.moves(event):
                        moved.append(event)
                    elif self._observing.is_news(event):
                        events.append(event)
                await self._saying.publish(events)
        return version, uids if complete and remaining <= 0 else None, moved

    def _doubt(self, version: str, uids: set[str]) -> str:
        """Why a complete list is not believed yet; "" when it is. The second one in doubt is."""
        if self._doubted:
            return ""
        if newer(self.state.version, version):
            doubt = "older"
        elif not uids and len(self._known) >= self._settings.emptied_from:
            doubt = "emptied"
        else:
            return ""
        self._doubted = True
        return doubt

    async def _believe(
        self, version: str, uids: set[str], moved: list[Event], asked_us: int, reason: str
    ) -> None:
        for event in moved:
            self._known.believe(event)
        await self._saying.publish([event for event in moved if self._observing.is_news(event)])
        if self._source.list_fact and (self._source.says_every_list or reason != "period"):
            parts = listed(
                self._source.list_fact,
                uids,
                name=self._source.kind,
                resource_version=version,
                time_us=asked_us,
                cluster=self._observing.name,
                source=self._observing.said_by,
            )
            await self._saying.publish(parts)
        self._known.keep_only(uids)
        if newer(self.state.version, version):
            # Two lists agree: the store was put back to an older state, and counts on from there.
            self.state.version = version
        self._doubted, self._unbelieved = False, 0
        self._page_size = min(self._page_size * 2, self._settings.page_size)
        self.state.listed_us = asked_us
        self._heartbeats.listed(self._now())
        self._want("period", self._settings.relist_seconds * (1 - 0.1 * self._jitter()))

    # The watch.

    async def _watch(self) -> None:
        """Publishes what happens, until a list is due, the connection ends, or it is silent too long."""
        heard = False
        async with aclosing(
            self._cluster.watch(self._source.path, version=self.state.version)
        ) as stream:
            while (rest := self._due_at - self._now()) > 0:
                try:
                    async with asyncio.timeout(
                        min(self._settings.silence_seconds, rest)
                    ) as self._waiting:
                        chunk = await anext(stream)
                except StopAsyncIteration:
                    # Servers end watches now and then; one that ends each at once is in trouble.
                    return None if heard else await self._waits.back_off("the watch ended at once")
                except TimeoutError:
                    if self._now() + 0.01 < self._due_at:
                        self._want("silence")
                    return None
                finally:
                    self._waiting = None
                began = self._now()
                taken = await self._take(chunk)
                # Only now: a chunk may hold nothing but a refusal.
                heard = True
                self._heard()
                self._waits.failures = 0
                if taken < self._settings.window_events:
                    spent = self._now() - began
                    await self._waits.sleep(max(self._settings.linger_seconds - spent, 0.0))

    async def _take(self, chunk: list[bytes]) -> int:
        """Publishes what the lines of ``chunk`` say, and moves on behind them. How many events it were."""
        events: list[Event] = []
        failure: BursarError | None = None
        if self._clock.has_stepped():
            # The watch goes on before this chunk when a list has measured the clock again.
            self._want("clock")
            return 0
        received_us = self._clock.checked_us()
        for line in filter(None, chunk):
            try:
                change, raw = lines.opened(line)
            except MalformedJsonError as error:
                event = self._parked(self._observing.record("", line, received_us), error)
            else:
                if change == "BOOKMARK":
                    self._move(lines.bookmark(raw))
                    continue
                if change == "ERROR":
                    failure = lines.failure(raw, resource_of(self._source.path))
                    break
                if change not in lines.CHANGES:
                    self.state.unknown += 1
                    self._seldom("unknown")
                    continue
                event = self._observed(self._observing.record(change, raw, received_us))
            if event is not None:
                events.append(event)
        if failure is None and self._due == "period":
            events += self._heartbeats.due(self._now(), received_us, self.state.version)
        await self._saying.publish(events)
        if failure is not None:
            raise failure
        return len(events)

    def _observed(self, record: Record) -> Event | None:
        """What one record of the watch says; None where that is stale, known, or doubted."""
        try:
            event = self._observing.translated(record)
        except (MalformedJsonError, ObservationError) as error:
            return self._parked(record, error)
        if not self._is_current(event):
            return None
        if self._known.moves(event):
            self.state.moved += 1
            return self._parked(record, _MOVED) if self._seldom("moved") else None
        is_late = record.change != "ADDED" and not self._known.holds(event)
        if not self._observing.is_news(event):
            return None
        self.state.late += is_late
        return event

    def _parked(self, record: Record, error: MalformedJsonError | ObservationError) -> Event | None:
        """That ``record`` is refused, with a list since it could have been a delete; None where said."""
        event = self._observing.refused(record, error)
        if not self._observing.is_news(event):
            return None
        if error is not _MOVED:
            self.relist("refused")
        return event

    def _is_current(self, event: Event) -> bool:
        """Whether the watch went forward with ``event``."""
        uid, version = records.identity(event)
        if self._move(version) or self._known.has(uid, version):
            self._stale_in_a_row = 0
            return True
        self.state.stale += 1
        self._stale_in_a_row += 1
        if self._stale_in_a_row >= MOST_STALE:
            self._stale_in_a_row = 0
            self.relist("stale")
        return False

    def _seldom(self, reason: str) -> bool:
        """Asks for a list because of what would not end asking; whether it did."""
        if self._now() < self._seldom_until.get(reason, 0.0):
            return False
        self._seldom_until[reason] = self._now() + SELDOM_SECONDS
        self.relist(reason)
        return True

    def _move(self, version: str) -> bool:
        if not newer(version, self.state.version):
            return False
        self.state.version = version
        return True

    # What both share.

    def _want(self, reason: str, delay_seconds: float = 0.0) -> None:
        """A list is due after ``delay_seconds``, unless one is due before."""
        due_at = self._now() + delay_seconds
        if due_at < self._due_at:
            self._due, self._due_at = reason, due_at

    def _heard(self) -> None:
        self.state.heard_us = self._clock.now_us()
        self.state.offset_us = self._clock.offset_us
        self.state.trouble = self.state.wrong_clock = ""
        self._denied_at = None

    def _now(self) -> float:
        """Seconds on the loop's own clock: it does not step when the machine's is set."""
        return asyncio.get_running_loop().time()

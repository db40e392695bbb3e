"""Reads one list of a source: every object, or only uids and versions.

The periodic list proves the existence of objects: a watch may lose a delete unnoticed. Objects hold no news there,
as the watch reported them. So it reads metadata alone, less than a tenth of the work. A version unknown to the
watch triggers a list of objects. All other lists read whole objects.

Source: Kubernetes API concepts, "Metadata-only fetches"; docs/reliability.md.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec

from bus.clock import ServerClock
from bus.envelope import Event
from bus.kube.watch import records
from bus.kube.watch.contract import Cluster, ReflectorSettings, Source
from bus.kube.watch.observing import Observing
from bus.kube.watch.paging import pages
from bus.kube.watch.publishing import EventPublisher
from bus.kube.watch.records import LONGEST_ID
from bus.kube.watch.seen_versions import SeenVersions

#: Bytes of objects read before other tasks have their turn.
BYTES_AT_ONCE = 1024 * 1024
#: Lists in a row that may expire between their pages, before one list in a single page (A13).
MOST_EXPIRED = 2


class Listing(msgspec.Struct, frozen=True):
    """The result of one list."""

    #: The list's version.
    version: str
    #: Its members: uid to version; None where it is incomplete.
    versions: dict[str, str] | None
    #: Objects on another node, not published yet.
    moved: list[Event] = []


class ListReader:
    """The lists of one source. It publishes their news."""

    def __init__(
        self,
        source: Source,
        cluster: Cluster,
        observing: Observing,
        known: SeenVersions,
        saying: EventPublisher,
        clock: ServerClock,
        settings: ReflectorSettings,
    ) -> None:
        self._source = source
        self._cluster = cluster
        self._observing = observing
        self._known = known
        self._saying = saying
        self._clock = clock
        self._largest = self._page_size = settings.page_size
        #: Lists in a row, expired between their pages.
        self.expired_in_a_row = 0

    async def read(self, *, metadata_only: bool) -> Listing:
        """One list, complete or not. Raises the errors of the cluster and of the clock."""
        limit = self._page_size
        if self.expired_in_a_row >= MOST_EXPIRED and limit == self._largest:
            limit = 0
        found = await self._pages(limit, metadata_only)
        self.expired_in_a_row = 0
        return found

    def shrink(self) -> None:
        """The answer was too large: ask for fewer at once. A few pods of 9 MiB each are."""
        self._page_size = max(self._page_size // 8, 1)

    def grow(self) -> None:
        """A list was accepted: ask for more at once again."""
        self._page_size = min(self._page_size * 2, self._largest)

    async def _pages(self, limit: int, metadata_only: bool) -> Listing:
        versions: dict[str, str] = {}
        moved: list[Event] = []
        if not metadata_only:
            self._observing.begin_list()
        version, complete, remaining = "", True, 0
        given = pages(self._cluster, self._source.path, limit=limit, metadata_only=metadata_only)
        async with aclosing(given):
            async for page in given:
                if not 0 < len(page.version) <= LONGEST_ID or version not in ("", page.version):
                    complete = False
                else:
                    version = page.version
                received_us, remaining = self._clock.checked_us(), page.remaining
                if metadata_only:
                    named = [records.version_of(item) for item in page.items]
                else:
                    named = await self._publish_page(page.items, received_us, moved)
                complete = complete and all(uid for uid, _ in named)
                versions.update(named)
        if not metadata_only:
            self._observing.end_list()
        return Listing(version, versions if complete and remaining <= 0 else None, moved)

    async def _publish_page(
        self, items: list[bytes], received_us: int, moved: list[Event]
    ) -> list[tuple[str, str]]:
        """Publishes the news in the objects of a page; objects on another node are added to ``moved``."""
        named, events, size = [], [], 0
        for item in items:
            # A page of large objects takes seconds, and webhook and leader wait in the same loop.
            size += len(item)
            if size > BYTES_AT_ONCE:
                await asyncio.sleep(0)
                size = 0
            event, uid = self._observing.item(self._observing.record("LISTED", item, received_us))
            named.append((uid, ""))
            if self._known.moves(event):
                moved.append(event)
            elif self._observing.is_news(event):
                events.append(event)
        await self._saying.publish(events)
        return named

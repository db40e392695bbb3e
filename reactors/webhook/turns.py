"""Turns at memory: a few at once, fewer of one tenant, and tenants in rotation."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairTurns:
    """At most ``most`` turns at once, of them ``most_per_key`` of one key. Waiting keys are served in rotation."""

    def __init__(self, most: int, most_per_key: int) -> None:
        self._most, self._most_per_key = most, most_per_key
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Waits for a turn of ``key``, and holds it while the body runs."""
        if self._has_room(key):
            self._running[key] += 1
        else:
            await self._wait(key)
        try:
            yield
        finally:
            self._leave(key)

    def _has_room(self, key: str) -> bool:
        return self._running.total() < self._most and self._running[key] < self._most_per_key

    async def _wait(self, key: str) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():
                # The turn was given at the same moment.
                self._leave(key)
            raise

    def _leave(self, key: str) -> None:
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]
        while found := next((one for one in self._waiting if self._has_room(one)), None):
            # A served key waits behind the others.
            futures = self._waiting.pop(found)
            future = futures.popleft()
            if futures:
                self._waiting[found] = futures
            if not future.done():
                self._running[found] += 1
                future.set_result(None)

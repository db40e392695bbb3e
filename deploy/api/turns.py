"""Turns of callers at the answering processes: each caller waits in a line of its own, and the lines move in turn.

Pure asyncio, no clock. Accounts of one namespace are one caller, as anybody who can make one can make a hundred.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_ACCOUNTS = "system:serviceaccount:"


class FullError(Exception):
    """The line of a caller is full."""


class Turns:
    """``most`` callers at once, and ``waiting`` more questions of each caller."""

    def __init__(self, most: int, waiting: int) -> None:
        self._free = most
        self._waiting = waiting
        #: By caller; the first line is served next.
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises FullError."""
        await self._begin(caller_of(name))
        try:
            yield
        finally:
            self._pass()

    async def _begin(self, caller: str) -> None:
        if self._free:
            self._free -= 1
            return
        line = self._lines.setdefault(caller, deque())
        if len(line) >= self._waiting:
            raise FullError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            with suppress(ValueError):
                line.remove(turn)
            if turn.done() and not turn.cancelled():
                self._pass()
            raise

    def _pass(self) -> None:
        """Give a turn to the next line, and move that line to the end."""
        while self._lines:
            caller = next(iter(self._lines))
            line = self._lines.pop(caller)
            turn = line.popleft() if line else None
            if line:
                self._lines[caller] = line
            if turn is not None and not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def caller_of(name: str) -> str:
    """The caller behind a user name."""
    if name.startswith(_ACCOUNTS):
        return name.rpartition(":")[0]
    return name

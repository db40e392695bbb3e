"""Waits that end: a cancellation is never lost, and a standstill is reported.

Until Python 3.12 ``asyncio.wait_for`` returns the result, and forgets its task's cancellation, if both come in one
pass of the loop. A library that uses ``wait_for``, or swallows CancelledError, leaves its task running after a
cancellation. So calls into them go through :func:`heeded`, and tasks are ended by :func:`ended`.

Source: https://github.com/python/cpython/issues/86296 (``wait_for`` suppresses a cancellation), fixed in 3.12.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from bus.errors import StalledError

#: How long something may stay where it is while it is waited for.
STALL_SECONDS = 60.0

#: How long a cancelled task may take to end before it is cancelled again.
PATIENCE_SECONDS = 5.0

#: Interval of checks for progress.
LOOK_SECONDS = 0.02

T = TypeVar("T")

_log = logging.getLogger(__name__)


async def heeded(work: Awaitable[T]) -> T:
    """The result of ``work``. Raises CancelledError if this task was cancelled meanwhile, also if ``work`` hid it."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        return await work
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError


async def whole(work: Awaitable[T]) -> T:
    """The result of ``work`` in a thread. A cancellation waits until ``work`` has ended."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    finally:
        if not working.done():
            await asyncio.wait([working])


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and return when each has ended, with whatever result. A task without its cancellation is
    cancelled again.
    """
    for task in tasks:
        task.cancel()
    while left := [task for task in tasks if not task.done()]:
        _, left_over = await asyncio.wait(left, timeout=PATIENCE_SECONDS)
        for task in left_over:
            _log.warning("%s has not ended: it is cancelled again", task.get_name())
            task.cancel()


class Moves:
    """A recurring movement, and the tasks waiting for it."""

    def __init__(self) -> None:
        self._moved = asyncio.Event()

    def wake(self) -> None:
        """It moved: all waiting tasks go on."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def next(self, seconds: float) -> None:
        """Return when it moves, or after so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._moved.wait()
        except TimeoutError:
            return


async def reached(
    position: Callable[[], int],
    goal: int,
    what: str,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Return when ``position`` is at ``goal`` or beyond. ``progress`` hears of every look.

    Raises StalledError with ``what`` if the position stays the same for a minute: a long way is allowed, a
    standstill is not. A stopped process counts the stop as one second.
    """
    loop = asyncio.get_running_loop()
    last, looked, still = position(), loop.time(), 0.0
    while (at := position()) < goal:
        if progress is not None:
            progress(at)
        now = loop.time()
        still = still + min(now - looked, 1.0) if at == last else 0.0
        if still > STALL_SECONDS:
            raise StalledError(waited_for=what, goal=goal, at=at, seconds=int(still))
        last, looked = at, now
        await asyncio.sleep(LOOK_SECONDS)
    if progress is not None:
        progress(position())


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run ``work`` beside the body: its error ends the body, the body's end cancels it."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work, name=getattr(work, "__qualname__", None))
        try:
            yield
        finally:
            # The group would wait for ever for a task without its cancellation.
            await ended(task)

"""Endless rounds beside decisions. Like every effect they are held by shadow mode, a pause and the interlocks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from bus.errors import RetryableError
from reactors.engine.replica import Replica
from reactors.engine.settings import ReactorPolicy

T = TypeVar("T")

_log = logging.getLogger(__name__)


async def every(seconds: float, turn: Callable[[], Awaitable[object]], what: str) -> None:
    """Turn after turn, for ever; ``what`` names the waiting work in the log after a temporary failure."""
    while True:
        try:
            await turn()
        except RetryableError as error:
            _log.warning("%s: tried again: %s", what, error)
        await asyncio.sleep(seconds)


async def all_of(work: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all, in order. The first error is raised once all have ended: none goes on beside the next round."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return [one for one in done if not isinstance(one, BaseException)]


def in_force(replica: Replica, reactor: str, now_us: int) -> ReactorPolicy | None:
    """The policy of a reactor's effects at ``now_us``; None while its effects are held."""
    current = replica.policies.of(reactor)
    if current is None or current.mode != "on" or replica.policies.is_paused:
        return None
    return None if replica.interlocks.hold(now_us) else current.policy

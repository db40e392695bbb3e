"""An event loop that never waits: where nothing is left to do now, its time jumps to the next timer.

Threads would be real time, so work for an executor runs at once, in the loop's own thread. The order of everything
is then a function of the program alone.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from bus.clock import SECOND_US

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Reports no file, and moves ``loop_seconds`` on instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.loop_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("every task waits for another one: nothing will ever happen")
        self.loop_seconds += max(timeout, 0.0)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Begins at second 0."""

    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.loop_seconds

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> Any:
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class SimulatedClock:
    """The loop's time, from ``begin_us`` (microseconds UTC) on."""

    def __init__(self, begin_us: int) -> None:
        self.begin_us = begin_us

    def now_us(self) -> int:
        return self.begin_us + int(asyncio.get_running_loop().time() * SECOND_US)


def simulate(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)

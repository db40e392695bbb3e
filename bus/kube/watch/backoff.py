"""Waits of a source after failures. Each doubles and has jitter, so sources do not all return at once.

No loop of tenacity: lists, watches and their ends count in one row, and each error says the shortest wait itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bus.kube.watch.contract import ReflectorSettings, ReflectorState


class Backoff:
    """The waits of one reflector. The reason is in the ``trouble`` of its state."""

    def __init__(
        self,
        settings: ReflectorSettings,
        state: ReflectorState,
        sleep: Callable[[float], Awaitable[object]],
        jitter: Callable[[], float],
    ) -> None:
        """``jitter`` gives a number from 0 to 1."""
        self._settings = settings
        self._state = state
        self._jitter = jitter
        self.sleep = sleep
        #: Failures in a row.
        self.failures = 0

    async def back_off(self, trouble: object, at_least: float = 0.0) -> None:
        """Wait after one more failure."""
        self.failures += 1
        self._state.trouble = str(trouble)
        await self.sleep(max(at_least, self.growing(self.failures)))

    def growing(self, failures: int) -> float:
        """The wait after so many failures in a row, between half and all of its doubled value."""
        full = self._settings.wait_seconds * 2.0 ** min(failures - 1, 20)
        return min(full, self._settings.longest_wait_seconds) * (0.5 + 0.5 * self._jitter())

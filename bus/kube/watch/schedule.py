"""When the next complete list of a source is due, and why.

Source: docs/reliability.md.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from bus.kube.watch.contract import ReflectorSettings

#: Shortest time between two lists because of an unknown type of record (A2), and between two because of a moved pod
#: (A22).
SELDOM_SECONDS = 600.0


class ListSchedule:
    """The lists of one reflector: the next one, and the wait of the watch until then."""

    def __init__(self, settings: ReflectorSettings) -> None:
        self._settings = settings
        #: Why the next list is due, and when in seconds of the loop.
        self.reason, self._due_at = "start", 0.0
        self._listed_at = float("-inf")
        #: The wait of the watch, while there is one.
        self.waiting: asyncio.Timeout | None = None
        self._seldom_until: dict[str, float] = {}

    @property
    def rest_seconds(self) -> float:
        """Until the next list is due; less than nothing where it is late."""
        return self._due_at - self.now()

    def begin(self) -> str:
        """A list is asked for now: why. The next one is due when somebody wants it."""
        reason = self.reason
        self.reason, self._due_at = "period", float("inf")
        self._listed_at = self.now()
        return reason

    def want(self, reason: str, delay_seconds: float = 0.0) -> None:
        """A list is due after ``delay_seconds``, unless one is due before."""
        due_at = self.now() + delay_seconds
        if due_at < self._due_at:
            self.reason, self._due_at = reason, due_at

    def proven(self) -> None:
        """The watch reported the versions of a list of metadata: a list of objects is not due."""
        if self.reason == "missed":
            self.reason, self._due_at = "period", float("inf")

    def hasten(self, reason: str) -> None:
        """A list is due at once, also while the watch is waiting; soon, if there has just been one."""
        self.want(reason, max(self._listed_at + self._settings.apart_seconds - self.now(), 0.0))
        until = self.waiting.when() if self.waiting is not None else None
        if self.waiting is not None and until is not None and until > self._due_at:
            # A wait that has ended meanwhile looks for itself.
            with suppress(RuntimeError):
                self.waiting.reschedule(max(self._due_at, self.now()))

    def seldom(self, reason: str) -> bool:
        """Hastens a list for a recurring cause; returns whether it did."""
        if self.now() < self._seldom_until.get(reason, 0.0):
            return False
        self._seldom_until[reason] = self.now() + SELDOM_SECONDS
        self.hasten(reason)
        return True

    def now(self) -> float:
        """Seconds on the loop's own clock: it does not step when the machine's is set."""
        return asyncio.get_running_loop().time()

"""Turns of processes that append to the same tree: one after the other, in the order of their names.

Without turns a winner appends again before the others have read its entry. So they lose again and again, and
each loss costs the server as much as an append. A turn is only a courtesy: a process that does not wait does no harm, as the
expected sequence decides. Measured with three processes, 16 and 64 askers, sync always, on a busy machine: 0.7 losses
an append instead of 1.8, 1.5 and 1.1 times the decisions a second, and half the p99.

Pure but for its state; times are seconds of one monotonic clock.
"""

from __future__ import annotations

#: A process with an append in this time still takes part. Longer than an append; short, since the others wait for it.
REMEMBERED_SECONDS = 0.5

#: The longest turn: a slower process is overtaken.
LONGEST_SECONDS = 0.05


class JournalTurns:
    """The turns of one journal, as one process sees them."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._last = ""
        self._length = LONGEST_SECONDS

    def took(self, seconds: float) -> None:
        """An append of this process took so long: about as long as a turn lasts."""
        self._length = min(LONGEST_SECONDS, (3 * self._length + seconds) / 4)

    def appended(self, source: str, now: float) -> None:
        """``source`` appended something."""
        self._seen[source] = now
        self._last = source

    def wait(self, source: str, now: float) -> float:
        """The time for which ``source`` lets others go first; 0 when it is its turn, or it appends alone."""
        since = now - REMEMBERED_SECONDS
        others = sorted(name for name, at in self._seen.items() if at > since and name != source)
        if not others:
            return 0.0
        ring = sorted([*others, source])
        last = self._last if self._last in ring else source
        before = (ring.index(source) - ring.index(last) - 1) % len(ring)
        return max(0.0, self._seen.get(self._last, since) + before * self._length - now)

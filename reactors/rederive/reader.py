"""The state of a process at a place of the history: its view of the
cluster and its queues, folded by the product's own readers.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bus.clock import Clock
from bus.envelope import Event
from bus.transport import Transport
from reactors.readers import Readers

History = Callable[[], Iterable[Event]]
"""All events of one cluster in order, as they were stored; asked several times."""


class RederivedReaders:
    """Reads forwards only. ``transport`` and ``clock`` are not asked for anything: the readers of a running process have them."""

    def __init__(self, history: History, cluster: str, transport: Transport, clock: Clock) -> None:
        self._events = iter(history())
        self._next = next(self._events, None)
        #: Everything up to here was read.
        self.sequence = 0
        readers = Readers(transport, clock, cluster=cluster, source="rederive")
        self._journals, self.view, self.lines = readers.journals, readers.view, readers.lines

    def reach(self, sequence: int) -> None:
        """Read on up to ``sequence``."""
        self.sequence = sequence
        while self._next is not None and self._next.sequence <= sequence:
            self._journals.apply([self._next])
            # Marks are not worked off here.
            self.view.unmark()
            self._next = next(self._events, None)

"""What a process knew at a place of the history: its view of the cluster and its queues, folded by the product's own readers.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bus.clock import Clock
from bus.envelope import Event
from bus.transport import Transport
from reactors.admission.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.queue.state import QueueState

History = Callable[[], Iterable[Event]]
"""All events of one cluster in order, as they were stored; asked several times."""


class Reader:
    """Reads forwards only. ``transport`` and ``clock`` are not asked for anything: the readers of a running process have them."""

    def __init__(self, history: History, cluster: str, transport: Transport, clock: Clock) -> None:
        self._events = iter(history())
        self._next = next(self._events, None)
        #: Everything up to here was read.
        self.sequence = 0
        journals = Journals(transport, clock, cluster=cluster, source="rederive")
        self.view = AdmissionState(cluster, journals)
        self._journals = journals
        journals.listen(self.view.take)
        self.lines = QueueState(self.view)
        journals.listen(self.lines.take)

    def reach(self, sequence: int) -> None:
        """Read on up to ``sequence``."""
        self.sequence = sequence
        while self._next is not None and self._next.sequence <= sequence:
            self._journals.take([self._next])
            # Nobody works these off here.
            self.view.unmark()
            self._next = next(self._events, None)

"""Journals of quota trees, and between their entries the arrivals, moves and ends of waiting workloads.

The readers of a running process find the waiting workloads: they read the history of a cluster. Pure but for their state.

Source: docs/lab.md; docs/queues.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events import VOCABULARY
from bus.events.admissions import JOURNAL, AdmissionsGrouped, entries
from bus.events.observations import ObjectsListed
from bus.events.queues import QueueOrdered
from bus.events.vocabulary import Fact, read
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from reactors.admission.coverage.objects import Object
from reactors.admission.coverage.owners import COVERING
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.state.state import AdmissionState
from reactors.lab.quotas.shape import Arrived, Entry, Queued, Reordered, Withdrawn
from reactors.queue.state import QueueState
from reactors.readers import Readers

#: Facts needed for waiting workloads.
READS: tuple[type[Fact], ...] = (
    *JOURNAL, AdmissionsGrouped, *AdmissionState.places, *QueueState.orders,
)  # fmt: skip
_JOURNAL = {fact.wire_type for fact in JOURNAL} | {AdmissionsGrouped.wire_type}


class RecordedJournals:
    """Entries by tree. ``readers``: those of a process without history; None = no workload waited."""

    def __init__(self, readers: Readers | None = None) -> None:
        self.of: dict[str, list[Entry]] = {}
        self._readers = readers
        #: By uid of each held workload: its queue.
        self._waits: dict[str, QuotaRef] = {}

    def apply(self, event: Event) -> None:
        """The next event of the cluster."""
        if event.type in _JOURNAL:
            self._entries(event)
        if self._readers is None:
            return
        self._readers.journals.apply([event])
        self._readers.view.unmark()
        for uid, fact in self._queued(event):
            where = self._waits[uid]
            tree = self._readers.journals.places.get((where.kind, where.quota), "")
            self.of.setdefault(tree, []).append(Entry(event, fact))
            if isinstance(fact, Withdrawn):
                del self._waits[uid]

    def _entries(self, event: Event) -> None:
        try:
            for one in entries(event):
                fact = read(one, VOCABULARY)
                if isinstance(fact, JOURNAL):
                    self.of.setdefault(event.key, []).append(Entry(one, fact))
        except EnvelopeError:
            # The ledger parks it.
            return

    def _queued(self, event: Event) -> Iterator[tuple[str, Queued]]:
        assert self._readers is not None
        view, lines = self._readers.view, self._readers.lines
        found = view.objects.get(event.key)
        if event.type == WorkloadObserved.wire_type and found is not None:
            where = self._place(found) if event.key not in self._waits else None
            if where is not None:
                self._waits[event.key] = where
                yield event.key, Arrived(where.quota, lines.waiting(found, where))
        elif event.type == QueueOrdered.wire_type and found is not None:
            if event.key in self._waits:
                where = self._waits[event.key]
                one = lines.waiting(found, where)
                yield event.key, Reordered(where.quota, event.key, one.priority, one.is_stopped)
        elif event.type in (WorkloadVanished.wire_type, ObjectsListed.wire_type):
            asked = (event.key,) if event.type == WorkloadVanished.wire_type else [*self._waits]
            for uid in asked:
                if uid in self._waits and uid not in view.objects:
                    yield uid, Withdrawn(self._waits[uid].quota, uid)

    def _place(self, found: Object) -> QuotaRef | None:
        """The queue of a held workload; None if it is not held."""
        assert self._readers is not None
        is_ours = found.owner is None or found.owner.kind not in COVERING
        if not found.ask.held or not is_ours:
            return None
        where = self._readers.view.place(found.labels, found.namespace)
        known = self._readers.journals.places
        return where if where is not None and (where.kind, where.quota) in known else None

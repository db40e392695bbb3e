"""The readers for admission and the queues of one cluster: they fold the same history, and one snapshot holds them all.

Source: docs/architecture.md; ``docs/admission.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import msgspec

from bus.clock import Clock
from bus.envelope import Event
from bus.events.admissions import JOURNAL, AdmissionsGrouped
from bus.events.clock import ClockTicked
from bus.events.vocabulary import Fact
from bus.transport import Transport
from projections.cluster.state import SavedCluster
from projections.engine.parts import Part, shape
from projections.quota_trees.queries import Select, archived
from reactors.admission.metrics import DecisionCounts, SavedDecisions
from reactors.admission.state.raises import Raises, SavedRaises
from reactors.admission.state.state import AdmissionState, SavedAdmission
from reactors.engine.journals import Journals, SavedJournals
from reactors.queue.plan import count_all
from reactors.queue.state import QueueState, SavedQueues


class SavedReaders(msgspec.Struct):
    """All readers in a snapshot."""

    journals: SavedJournals
    state: SavedCluster
    view: SavedAdmission
    lines: SavedQueues
    decisions: SavedDecisions
    raises: SavedRaises


class Readers(Part):
    """Journals, the state of admission and the queues; each folds an event after those before it."""

    name: ClassVar[str] = "admission"
    Saved = SavedReaders
    derived = frozenset({"cluster"})
    #: The facts that change one of them.
    reads: ClassVar[tuple[type[Fact], ...]] = (
        *JOURNAL, AdmissionsGrouped, *AdmissionState.reads, *QueueState.reads, ClockTicked,
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        cluster: str,
        source: str,
        requires_namespaces: bool = False,
    ) -> None:
        self.cluster = cluster
        self.journals = Journals(transport, clock, cluster=cluster, source=source)
        self.view = AdmissionState(cluster, self.journals, requires_namespaces=requires_namespaces)
        self.state = self.view.state
        self.decisions = DecisionCounts(cluster)
        self.lines = QueueState(self.view)
        #: Fed by the reconciler of the journals.
        self.raises = Raises()
        for take in (self.view.apply, self.decisions.apply, self.lines.apply):
            self.journals.listen(take)
        self.journals.listen(partial(_counting, self.journals, self.lines))

    @property
    def version(self) -> str:
        """The version of its snapshots."""
        return shape(SavedReaders)

    @property
    def sequence(self) -> int:
        """The newest folded event."""
        return self.journals.sequence

    @property
    def is_pure(self) -> bool:
        """Whether no own entry of a journal is still to be read."""
        return self.journals.is_pure

    def read(self, select: Select, until: int, facts: Sequence[type[Fact]] | None = None) -> None:
        """Fold the archive after the known part, up to the event ``until``; only ``facts``, if the caller needs nothing
        else.
        """
        types = [fact.wire_type for fact in (self.reads if facts is None else facts)]
        after = self.sequence
        for events in archived(select, self.cluster, types, after=after, until=until, apart=False):
            self.journals.apply(events)
        self.journals.sequence = max(self.sequence, until)


def _counting(journals: Journals, lines: QueueState, event: Event) -> None:
    """Count the unmet demand of elastic trees, at each tick of the history."""
    if event.type == ClockTicked.wire_type and event.cluster == lines.cluster:
        count_all(journals.trees, lines, event.time_us)

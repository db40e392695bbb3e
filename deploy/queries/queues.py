"""Queues in the ledger's archive, and orders to them.

For questions: the readers and rules of the running queues, fed with a snapshot and the archive after it. The story of
a workload starts at the newest snapshot before its first event.

Source: docs/architecture.md (snapshots).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from bus.clock import SystemClock
from bus.envelope import Event
from bus.events.admissions import JOURNAL
from bus.events.queues import QueueOrdered
from bus.events.vocabulary import Fact
from bus.memory import MemoryTransport
from projections.engine.segments.reading import Wanted, history
from projections.quota_trees import Tree
from projections.quota_trees.queries import Select, archived
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.state.state import AdmissionState
from reactors.engine.snapshots import last_archived, restored
from reactors.queue.explanation import WaitExplanation, WaitStep
from reactors.queue.outlook import Outlook, outlooks
from reactors.queue.plan import count_all, planned
from reactors.queue.state import QueueState
from reactors.readers import Readers

if TYPE_CHECKING:
    from deploy.settings.shape import Settings


class _Archive:
    """The readers of queues, fed with a cluster's archive."""

    def __init__(self, readers: Readers) -> None:
        self.journals, self.view, self.lines = readers.journals, readers.view, readers.lines

    def tree_of(self, where: QuotaRef) -> Tree | None:
        """The tree of a quota."""
        return self.journals.trees.get(self.journals.places.get((where.kind, where.quota), ""))

    def read(self, select: Select, before: Callable[[Event], None] = lambda event: None) -> None:
        """Read the archive after the last known event; ``before`` is called with each event before all readers."""
        # Pods show started workloads, not waiting ones.
        read: tuple[type[Fact], ...] = (*JOURNAL, *AdmissionState.places, *QueueState.orders)
        types = [fact.wire_type for fact in read]
        after = self.journals.sequence
        for part in archived(select, self.view.cluster, types, after=after, apart=False):
            for event in part:
                before(event)
                self.journals.apply([event])

    def outlooks(self, now_us: int) -> dict[str, list[Outlook]]:
        """All waiting workloads, by quota."""
        found: dict[str, list[Outlook]] = {}
        count_all(self.journals.trees, self.lines, now_us)
        for name, by_quota in planned(self.lines, self.tree_of).queues.items():
            tree = self.journals.tree(name)
            for quota, line in by_quota.items():
                running = self.lines.running(tree.nodes[quota])
                # A quota of each kind may have this name.
                found.setdefault(quota, []).extend(outlooks(tree, line.waiting, running, now_us))
        return dict(sorted(found.items()))


def _readers(cluster: str) -> Readers:
    return Readers(MemoryTransport(), SystemClock(), cluster=cluster, source="queues")


def queues(select: Select, cluster: str, now_us: int) -> dict[str, list[Outlook]]:
    """All waiting workloads of a cluster, by quota."""
    archive = _Archive(restored(select, partial(_readers, cluster), last_archived(select)))
    archive.read(select)
    return archive.outlooks(now_us)


def explanations(
    select: Select, cluster: str, uids: Collection[str], now_us: int
) -> tuple[list[WaitStep], list[Outlook]]:
    """The steps of the workloads ``uids``, in order; and the current obstacles of those that wait still."""
    # Their obstacles may be much older than they are: the snapshot has them.
    journal = history(select, Wanted(cluster, keys=frozenset(uids)), part=1)
    first = next((part[0].sequence for part in journal), 1)
    archive = _Archive(restored(select, partial(_readers, cluster), first - 1))
    names = {
        grant.uid: f"{grant.namespace}/{grant.name}"
        for tree in archive.journals.trees.values()
        for node in tree.nodes.values()
        for grant in node.grants.values()
    }
    explanation = WaitExplanation(archive.view, archive.lines, archive.tree_of, uids, names)
    archive.journals.listen(explanation.apply)
    archive.read(select, explanation.before)
    every = (one for line in archive.outlooks(now_us).values() for one in line)
    return explanation.turns, [one for one in every if one.waiting.uid in uids]


async def order(settings: Settings, cluster: str, fact: QueueOrdered) -> int:
    """Publish an order; its sequence. Raises the bus's errors."""
    # Importing the bus takes half a second; reading a queue should not pay for it.
    from deploy.runtime.bootstrap import bus

    now_us = SystemClock().now_us()
    event = fact.event(
        cluster=cluster, key=fact.uid, id=f"{fact.wire_type}/{fact.uid}/{now_us}",
        source=f"cli/{fact.author}", time_us=now_us,
    )  # fmt: skip
    async with bus(settings) as opened:
        (sequence,) = await opened.transport.publish([event])
    return sequence

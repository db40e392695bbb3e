"""Queues as the ledger's archive has them, and orders to them.

For questions: the same readers and rules as where queues are worked off, fed with the archive instead of the bus. They read
every version of every workload.

Source: item 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from bus.clock import SystemClock
from bus.envelope import Event
from bus.events.admissions import JOURNAL
from bus.events.queues import QueueOrdered
from bus.events.vocabulary import Fact
from bus.memory import MemoryTransport
from projections.quota_trees import Tree
from projections.quota_trees.queries import Select, archived
from reactors.admission.mapping import QuotaRef
from reactors.admission.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.queue.explanation import WaitExplanation, WaitStep
from reactors.queue.outlook import Outlook, outlooks
from reactors.queue.plan import count_all, planned
from reactors.queue.state import QueueState

if TYPE_CHECKING:
    from deploy.settings.shape import Settings


class _Archive:
    """The readers of queues, fed with a cluster's archive."""

    def __init__(self, cluster: str) -> None:
        self.journals = Journals(MemoryTransport(), SystemClock(), cluster=cluster, source="queues")
        self.view = AdmissionState(cluster, self.journals)
        self.journals.listen(self.view.take)
        self.lines = QueueState(self.view)
        self.journals.listen(self.lines.take)

    def tree_of(self, where: QuotaRef) -> Tree | None:
        """The tree that a quota stands in."""
        return self.journals.trees.get(self.journals.places.get((where.kind, where.quota), ""))

    def read(self, select: Select, before: Callable[[Event], None] = lambda event: None) -> None:
        """All of it; ``before`` sees each event before anybody else."""
        # Pods say what has started, and nothing of who waits.
        read: tuple[type[Fact], ...] = (*JOURNAL, *AdmissionState.places, *QueueState.orders)
        types = [fact.wire_type for fact in read]
        for events in archived(select, self.view.cluster, types, apart=False):
            for event in events:
                before(event)
                self.journals.take([event])

    def outlooks(self, now_us: int) -> dict[str, list[Outlook]]:
        """Everybody who waits, by quota."""
        found: dict[str, list[Outlook]] = {}
        count_all(self.journals.trees, self.lines, now_us)
        for name, by_quota in planned(self.lines, self.tree_of).queues.items():
            tree = self.journals.tree(name)
            for quota, line in by_quota.items():
                running = self.lines.running(tree.nodes[quota])
                # A quota of each kind may have this name.
                found.setdefault(quota, []).extend(outlooks(tree, line.waiting, running, now_us))
        return dict(sorted(found.items()))


def queues(select: Select, cluster: str, now_us: int) -> dict[str, list[Outlook]]:
    """Everybody who waits in a cluster, by quota."""
    archive = _Archive(cluster)
    archive.read(select)
    return archive.outlooks(now_us)


def stories(
    select: Select, cluster: str, uids: Collection[str], now_us: int
) -> tuple[list[WaitStep], list[Outlook]]:
    """What befell the workloads ``uids``, in order; and of those that wait still, what they wait for now."""
    archive = _Archive(cluster)
    story = WaitExplanation(archive.view, archive.lines, archive.tree_of, uids)
    archive.journals.listen(story.take)
    archive.read(select, story.before)
    every = (one for line in archive.outlooks(now_us).values() for one in line)
    return story.turns, [one for one in every if one.waiting.uid in uids]


async def order(settings: Settings, cluster: str, fact: QueueOrdered) -> int:
    """Say an order; its sequence. Raises what the bus raises."""
    # The bus takes half a second to import, which no look at a queue should pay.
    from deploy.runtime.bootstrap import bus

    now_us = SystemClock().now_us()
    event = fact.event(
        cluster=cluster, key=fact.uid, id=f"{fact.wire_type}/{fact.uid}/{now_us}",
        source=f"cli/{fact.author}", time_us=now_us,
    )  # fmt: skip
    async with bus(settings) as opened:
        (sequence,) = await opened.transport.publish([event])
    return sequence

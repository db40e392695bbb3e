"""Queues as the ledger's archive has them, and orders to them.

For questions: the same readers and rules as where queues are worked off, fed with the archive instead of the bus. They read
every version of every workload.

Source: issue 5, item 3.
"""

from __future__ import annotations

from bus.clock import SystemClock
from bus.events.admissions import JOURNAL
from bus.events.namespaces import NamespaceObserved
from bus.events.observations import ObjectsListed
from bus.events.priorities import PriorityClassObserved, PriorityClassVanished
from bus.events.queues import QueueOrdered
from bus.events.quotas import QuotaObserved, QuotaVanished
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.memory import MemoryTransport
from deploy.bootstrap import bus
from deploy.settings import Settings
from projections.admissions import Tree
from projections.admissions.queries import Select, archived
from reactors.admission.keeper import Keeper
from reactors.admission.mapping import Place
from reactors.admission.view import View
from reactors.engine.journals import Journals
from reactors.queue.lines import Lines
from reactors.queue.outlook import Outlook, outlooks
from reactors.queue.plan import planned

_FACTS = (
    *JOURNAL, NamespaceObserved, QuotaObserved, QuotaVanished, WorkloadObserved, WorkloadVanished,
    ObjectsListed, PriorityClassObserved, PriorityClassVanished, QueueOrdered,
)  # fmt: skip


def queues(select: Select, cluster: str, now_us: int) -> dict[str, list[Outlook]]:
    """Everybody who waits in a cluster, by quota."""
    journals = Journals(MemoryTransport(), SystemClock(), cluster=cluster, source="queues")
    view = View(cluster)
    journals.listen(view.take)
    # It forgets what a complete list does not show.
    Keeper(journals, view, SystemClock())
    lines = Lines(view)
    journals.listen(lines.take)
    types = [fact.wire_type for fact in _FACTS]
    for events in archived(select, cluster, types, apart=False):
        journals.take(events)

    def tree_of(where: Place) -> Tree | None:
        return journals.trees.get(journals.places.get((where.kind, where.quota), ""))

    found: dict[str, list[Outlook]] = {}
    for name, by_quota in planned(lines, tree_of).queues.items():
        tree = journals.tree(name)
        for quota, line in by_quota.items():
            running = lines.running(tree.nodes[quota])
            found[quota] = outlooks(tree, line.waiting, running, now_us)
    return dict(sorted(found.items()))


async def order(settings: Settings, cluster: str, fact: QueueOrdered) -> int:
    """Say an order; its sequence. Raises what the bus raises."""
    now_us = SystemClock().now_us()
    event = fact.event(
        cluster=cluster, key=fact.uid, id=f"{fact.wire_type}/{fact.uid}/{now_us}",
        source=f"cli/{fact.author}", time_us=now_us,
    )  # fmt: skip
    async with bus(settings) as opened:
        (sequence,) = await opened.transport.publish([event])
    return sequence

"""Unmet demand: refused requests and queued workloads count when an elastic tree divides its capacity.

Counted at every tick and before each look at the queues, so borrowers are limited to the remaining capacity.
All demands together may exceed the capacity. So they are counted in the order of their requests, and one
counts only if its quota's share then has room for all of it. A demand larger than every share would keep
others from borrowing unusable capacity: two demands of more than half each would block each other for ever.

Source: ``docs/admission.md``, "ElasticQuotas"; :mod:`projections.quota_trees.unmet`.
"""

from __future__ import annotations

from collections.abc import Mapping

from projections.quota_trees import Tree, TreeOverlay, charged
from projections.quota_trees.unmet import Unmet
from reactors.queue.shape import QueueLine, WaitingWorkload, ordered


def counted(tree: Tree, queues: Mapping[str, QueueLine], at_us: int) -> None:
    """Count a tree's unmet demand at a moment; ``queues`` are those of its quotas."""
    tree.refused.elapse(at_us)
    if tree.elastic.is_used:
        lines = (ordered(line.waiting) for line in queues.values())
        tree.count([unmet(tree, one) for line in lines for one in line])


def unmet(tree: Tree, one: WaitingWorkload) -> Unmet:
    """The demand of a waiting workload beyond its charge in the tree."""
    request = one.request
    grant = TreeOverlay(tree).grant(request.quota, request.uid)
    held = grant.charge if grant else {}
    wanted = charged(request.demand, request.types)
    wants = {key: n - held.get(key, 0) for key, n in wanted.items() if n > held.get(key, 0)}
    return Unmet(
        request.quota, request.uid, request.kind, request.namespace, request.name, wants,
        one.created_us,
    )  # fmt: skip

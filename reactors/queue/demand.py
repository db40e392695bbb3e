"""Unmet demand: refused requests and queued workloads count when an elastic tree divides its capacity.

Told at every tick, and before each look at the queues, so that those who borrowed are held to what is left for them.
What all want together may be more than there is, so they come one after the other, who asked first comes first, and one
counts only where its quota's share then has room for all of it. A demand that no share has room for would keep
others from borrowing what nobody can use: two that each want more than half would block each other for ever.

Source: ``docs/admission.md``, "ElasticQuotas"; :mod:`projections.quota_trees.unmet`.
"""

from __future__ import annotations

from collections.abc import Mapping

from projections.quota_trees import Tree, TreeOverlay, charged
from projections.quota_trees.unmet import Unmet
from reactors.queue.shape import Line, Waiting, ordered


def counted(tree: Tree, queues: Mapping[str, Line], at_us: int) -> None:
    """Have a tree count what is wanted of it at a moment; ``queues`` are those of its quotas."""
    tree.refused.elapse(at_us)
    if tree.elastic.is_used:
        lines = (ordered(line.waiting) for line in queues.values())
        tree.count([unmet(tree, one) for line in lines for one in line])


def unmet(tree: Tree, one: Waiting) -> Unmet:
    """What somebody who waits wants of a tree beyond what it holds."""
    request = one.request
    grant = TreeOverlay(tree).grant(request.quota, request.uid)
    held = grant.charge if grant else {}
    wanted = charged(request.demand, request.types)
    wants = {key: n - held.get(key, 0) for key, n in wanted.items() if n > held.get(key, 0)}
    return Unmet(
        request.quota, request.uid, request.kind, request.namespace, request.name, wants,
        one.created_us,
    )  # fmt: skip

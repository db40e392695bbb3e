"""Evidence about one object for the journals of quotas: its quota, and its charged amounts.

Source: docs/architecture.md; :mod:`reactors.admission.deciding.reconcile` has the rules.
"""

from __future__ import annotations

import msgspec

from projections.cluster import POD
from projections.quota_trees import Tree
from reactors.admission.deciding.mapping import QuotaRef, types_of
from reactors.admission.deciding.reconcile import LastSeen
from reactors.admission.state.state import AdmissionState


def evidence(view: AdmissionState, uid: str) -> tuple[QuotaRef | None, LastSeen] | None:
    """One object as evidence for the journals, and its quota; None if it was never observed, or is not known well enough.

    An object covered by its owner requests nothing itself.
    """
    coverage = view.coverage
    node = coverage.lives.node(uid)
    live, awaited = node.total, node.awaited
    found = view.objects.get(uid)
    if found is None and (gone := view.gone(uid)) is not None:
        is_covered = gone.was_seen and coverage.covered(gone)
        is_own = gone.was_seen and not is_covered
        where = view.counted(gone.labels, gone.namespace) if is_own else None
        return where, LastSeen(
            uid, gone.kind, gone.namespace, gone.name, where.quota if where else "", {},
            types_of(gone.labels), gone.at_us, True, gone.version, gone.listed_us, live=live,
            holder=coverage.holder(uid) if is_covered else None, awaited=awaited,
        )  # fmt: skip
    if found is None:
        above = coverage.lives.above(uid)
        if not above:
            return None
        version, listed_us = coverage.lives.shown(uid)
        return None, LastSeen(
            uid, POD, "", "", "", {}, {}, 0, version=version, listed_us=listed_us,
            holder=coverage.holder(above),
        )  # fmt: skip
    is_covered = coverage.covered(found)
    if is_covered is None:
        return None
    where = None if is_covered else view.counted(found.labels, found.namespace)
    return where, LastSeen(
        uid, found.kind, found.namespace, found.name, where.quota if where else "",
        found.ask.demand, types_of(found.labels), found.seen_us, is_held=found.ask.held,
        version=found.version, listed_us=found.listed_us, live=live,
        holder=coverage.holder(uid) if is_covered else None, awaited=awaited,
    )  # fmt: skip


def seen_in(tree: Tree, seen: LastSeen, where: QuotaRef | None) -> LastSeen:
    """The evidence about an object for the journal of ``tree``: a quota of that name there may be of another kind."""
    node = tree.nodes.get(seen.quota)
    if where is None or node is None or node.kind == where.kind:
        return seen
    return msgspec.structs.replace(seen, quota=where.full_name)

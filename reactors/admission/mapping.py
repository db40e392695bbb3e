"""Which quota does an object belong to? Pure.

By the workload's own label; where it has none, by the label of its namespace. A namespace that is
mapped belongs to that quota: its workloads may name the quota itself or one below it, no other
(``reliability.md`` D13). What names no quota and lives in no mapped namespace is not governed.

Source: ``koordinator.md`` sections 1 and 2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from bus.events.quotas import QuotaObserved
from projections.admissions.shape import BUSINESS, ELASTIC

LABEL = "biz.group.resource.quota"
ELASTIC_LABEL = "quota.scheduling.koordinator.sh/name"

#: Controllers whose pods are the system's: they are on every node whatever any quota says (catalogue D17).
SYSTEM_OWNERS = frozenset({"DaemonSet", "Node"})

_TYPES = ("cpu", "gpu", "memory")


class Place(msgspec.Struct, frozen=True):
    """A quota by kind and name. ``refusal`` "" unless the object may not name it."""

    kind: str
    quota: str
    refusal: str = ""


def place(
    labels: Mapping[str, str],
    namespace: Mapping[str, str],
    parent: Callable[[str], str | None],
) -> Place | None:
    """The quota of an object with ``labels`` in a namespace with those labels; None for one that is not governed.

    ``parent(name)`` is the parent of a business quota, "" at a root, None of an unknown one.
    """
    mapped, named = namespace.get(LABEL), labels.get(LABEL)
    if named:
        is_ours = not mapped or _is_below(named, mapped, parent)
        return Place(BUSINESS, named, "" if is_ours else "quota-not-yours")
    if mapped:
        return Place(BUSINESS, mapped)
    elastic = labels.get(ELASTIC_LABEL) or namespace.get(ELASTIC_LABEL)
    return Place(ELASTIC, elastic) if elastic else None


def types_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The model that each type label names, by ``cpu``, ``gpu`` and ``memory``."""
    return {name: model for name in _TYPES if (model := labels.get(f"{LABEL}/{name}-type"))}


def tree_of(places: Mapping[tuple[str, str], str], quota: QuotaObserved) -> str:
    """Where a quota stands, or would stand: its own tree, else its parent's, else a new one.

    ``places``: (kind, name) of every quota to its tree's name.
    """
    if quota.kind == ELASTIC:
        return places.get((ELASTIC, quota.name), f"elastic/{quota.tree}")
    above = quota.parent or quota.name
    new = places.get((BUSINESS, above), f"biz/{above}")
    return places.get((BUSINESS, quota.name), new)


def _is_below(name: str, top: str, parent: Callable[[str], str | None]) -> bool:
    seen: set[str] = set()
    current: str | None = name
    while current and current not in seen:
        if current == top:
            return True
        seen.add(current)
        current = parent(current)
    return False

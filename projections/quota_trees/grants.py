"""A quota's charge for an object after one more entry of the journal. Pure.

Source: docs/quotas.md; docs/architecture.md.
"""

from __future__ import annotations

import msgspec

from bus.events.admissions import AdmissionDecided, Left
from projections import timelines
from projections.quota_trees.shape import ANY_OWNER, LANDED_US, MOST_OWNERS, Grant


def grown(before: Grant | None, fact: AdmissionDecided, time_us: int) -> Grant:
    """The grant after an admitted or adopted decision.

    An adoption is not a request, nor is the release from a queue: nothing is on its way. The first request after a
    release counts as the first one, as the object was held until then.
    """
    if fact.verdict == "adopted" and before is not None:
        return msgspec.structs.replace(before, charge=fact.charge, is_adopted=True)
    if fact.child is not None and before is not None:
        # It is raised for a child: its own request may still be on its way.
        return msgspec.structs.replace(before, charge=fact.charge)
    is_late = before is None or time_us > before.asked_us + LANDED_US
    number, asked_us, version = fact.number, time_us, fact.resource_version
    is_alone = is_same = True
    is_no_ask = fact.verdict == "adopted" or fact.child is not None
    if is_no_ask or (fact.reason == "released" and is_late):
        number, asked_us = 0, 0
    elif before is not None and (before.number or before.is_adopted):
        is_repeat = (fact.demand, fact.types) == (before.demand, before.types)
        is_alone = is_late and fact.charge != before.charge
        if is_repeat and version and not is_late:
            # One patch is reviewed again at each conflict. An observation after all their versions shows all of
            # them.
            is_alone, version = before.is_alone, _later(before.version, version)
        is_same = is_late or (before.is_same and is_repeat)
    reshaped = before.reshaped if before else ""
    if fact.reshapes and fact.child is None:
        reshaped = _later(reshaped, fact.resource_version)
    return Grant(
        fact.quota, fact.uid, fact.kind, fact.namespace, fact.name, fact.charge, fact.demand,
        fact.types, number, asked_us, is_alone, is_same, fact.verdict == "adopted", version,
        # A child released by its owner returns to it if the change does not land.
        reshaped, _named(before.owners if before else (), fact.owner if fact.left is None else ""),
        # It stays so: a deleted object comes to its end.
        before is not None and before.is_leaving,
    )  # fmt: skip


def _named(owners: tuple[str, ...], owner: str) -> tuple[str, ...]:
    """The named controllers, with one more."""
    if not owner or owner in owners or ANY_OWNER in owners:
        return owners
    return (*owners, owner) if len(owners) < MOST_OWNERS else (ANY_OWNER,)


def without(owner: Grant, left: Left) -> Grant:
    """The grant of an owner after its child took its part of the charge."""
    return msgspec.structs.replace(owner, charge=left.charge, is_leaving=True)


def _later(one: str, other: str) -> str:
    return other if not one or timelines.precedes(one, 0, other, 0) else one

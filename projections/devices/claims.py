"""The devices allocated to each claim, over time.

A claim is folded as the set of its observations; its allocations are the runs of observations with one allocation.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.errors import TimestampError
from bus.events.devices import (
    Allocation,
    DeviceRequest,
    ResourceClaimObserved,
    ResourceClaimState,
    ResourceClaimVanished,
)
from bus.events.pods import Owner
from projections.engine.codec import Codec
from projections.engine.contract import Integer, Key, Projection, row_table
from projections.timelines import added, replaces

claims = row_table(
    "resource_claims",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # Its owning pod.
    sa.Column("pod_uid", sa.Text),
    sa.Column("team", sa.Text),
    sa.Column("user_name", sa.Text),
    sa.Column("created_us", Integer),
    sa.Column("allocated", sa.Integer, nullable=False),
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Index("resource_claims_by_name", "cluster", "namespace", "name"),
    sa.Index("resource_claims_by_pod", "pod_uid"),
)

Select = Callable[..., list[tuple[Any, ...]]]

#: How its source and its lists call it.
KIND = "ResourceClaim"
#: In the place of an allocation: the claim was deleted.
GONE: Literal["gone"] = "gone"


class ClaimHistory(msgspec.Struct, frozen=True):
    """All observations of one claim, by uid. A value of ``history`` is its allocation, None, or :data:`GONE`."""

    uid: str
    cluster: str
    namespace: str
    name: str
    created_us: int | None = None
    owner: Owner | None = None
    is_generated: bool = False
    team: str | None = None
    user: str | None = None
    requests: tuple[DeviceRequest, ...] = ()
    history: tuple[tuple[str, int, Allocation | Literal["gone"] | None], ...] = ()
    latest: tuple[str, int] | None = None
    sequence: int = 0


class ClaimAllocation(msgspec.Struct, frozen=True, gc=False):
    """One allocation of a claim: [``begin_us``, ``end_us``), None while it is open.

    ``after_another``: the claim was seen without it before, so its begin is known. ``evidence_us``: until when it is proven,
    where its end is known only from a list without the claim.
    """

    uid: str
    allocation: Allocation
    begin_us: int
    end_us: int | None
    after_another: bool
    evidence_us: int | None = None


def keys(fact: ResourceClaimState, event: Event) -> tuple[Key]:
    """One claim: its uid."""
    return ((fact.uid,),)


def fold(row: ClaimHistory | None, fact: ResourceClaimState, event: Event) -> ClaimHistory:
    """The claim with one more observation. A repeated observation gives the same row.

    Only its first version names its owning pod: Kubernetes makes it with this name, and a tenant may write it
    later.
    """
    version, time_us = fact.resource_version, event.time_us
    row = row or ClaimHistory(fact.uid, event.cluster, fact.namespace, fact.name)
    value = GONE if isinstance(fact, ResourceClaimVanished) else fact.allocation
    history = added(row.history, version, time_us, value)
    if history == row.history:
        return row
    owner, is_generated = row.owner, row.is_generated
    if history[0][:2] == (version, time_us):
        owner, is_generated = fact.owner, fact.is_generated
    latest, team, user, requests = row.latest, row.team, row.user, row.requests
    if replaces(version, time_us, latest):
        latest, team, user, requests = (version, time_us), fact.team, fact.user, fact.requests
    return ClaimHistory(
        row.uid, row.cluster, row.namespace, row.name, _stamp(fact.created) or row.created_us,
        owner, is_generated, team, user, requests, history, latest, event.sequence,
    )  # fmt: skip


def allocations(
    claim: ClaimHistory, absence: tuple[int, int | None] | None = None
) -> list[ClaimAllocation]:
    """Its allocations, oldest first. ``absence``: the time of its last observation (microseconds), and of the first
    complete list after that without it.

    An allocation begins at its stamp or its first observation, whichever is earlier, and ends at the claim's first
    observation without it. An allocation replaced by a later version cannot begin after that version's observation.
    """
    times: list[int] = []
    earliest = claim.history[-1][1]
    for _, time_us, _ in reversed(claim.history):
        earliest = min(earliest, time_us)
        times.append(earliest)
    times.reverse()
    found: list[ClaimAllocation] = []
    before: object = None
    for number, ((_, _, value), time_us) in enumerate(zip(claim.history, times, strict=True)):
        if number and value == before:
            continue
        if found and found[-1].end_us is None:
            begin = _begin(value, time_us) if isinstance(value, Allocation) else time_us
            found[-1] = msgspec.structs.replace(found[-1], end_us=begin)
        if isinstance(value, Allocation):
            found.append(
                ClaimAllocation(claim.uid, value, _begin(value, time_us), None, number > 0)
            )
        before = value
    if found and found[-1].end_us is None and absence is not None and absence[1] is not None:
        found[-1] = msgspec.structs.replace(found[-1], end_us=absence[1], evidence_us=absence[0])
    return found


def _begin(allocation: Allocation, seen_us: int) -> int:
    stamp = _stamp(allocation.stamp)
    return seen_us if stamp is None else min(stamp, seen_us)


def _stamp(text: str | None) -> int | None:
    try:
        return parse_stamp(text) if text else None
    except TimestampError:
        return None


def _shown(row: ClaimHistory) -> dict[str, Any]:
    value = row.history[-1][2] if row.history else None
    return {
        "pod_uid": row.owner.uid if row.is_generated and row.owner else None,
        "allocated": int(isinstance(value, Allocation)),
        "vanished": int(value == GONE),
    }


projection = Projection(
    name="resource_claims",
    version=1,
    table=claims,
    facts=(ResourceClaimObserved, ResourceClaimVanished),
    keys=keys,
    fold=fold,
    codec=Codec(
        ClaimHistory,
        claims,
        names={"user": "user_name"},
        packed={"state": ("owner", "is_generated", "requests", "history", "latest")},
        shown=_shown,
    ),
)

"""The workload of an object: the top of the chain of controllers, as far as it was observed. And the workload's
demand.

Of the owner and the quota every observation is kept, as they decide the past; of the demand the newest one.

Source: docs/accounting.md (workload), docs/wrong-input.md (depth at most 8, a cycle is cut);
docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.pods import Owner
from bus.events.workloads import UNREADABLE, WorkloadObserved, WorkloadVanished
from bus.kube.kinds import QUOTA_LABELS, Ask
from projections import timelines
from projections.attribution import Names, names
from projections.engine.codec import Codec
from projections.engine.contract import Key, Projection, row_table

#: Longest followed chain of controllers.
DEPTH = 8

workloads = row_table(
    "workloads",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("owner_uid", sa.Text),
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Index("workloads_by_owner", "owner_uid"),
    sa.Index("workloads_by_name", "name", "namespace", "cluster"),
)


class RequestedAmounts(msgspec.Struct, frozen=True, array_like=True):
    """The newest demand of a workload, and its observation."""

    resource_version: str
    time_us: int
    #: None = it could not be read: nothing is known of its size.
    ask: Ask | None


#: Its controller, and the quota names in its labels.
Value = tuple[Owner | None, Names | None]


class WorkloadHistory(msgspec.Struct, frozen=True):
    """One object of a chain, by uid."""

    cluster: str
    uid: str
    namespace: str
    kind: str
    name: str
    history: tuple[tuple[str, int, Value], ...] = ()
    gone: tuple[str, int] | None = None
    #: None = nothing was said yet of its demand.
    asked: RequestedAmounts | None = None
    sequence: int = 0

    @property
    def owner(self) -> Owner | None:
        """Its controller by its newest observation."""
        return self.history[-1][2][0] if self.history else None

    def quotas(self) -> list[tuple[int, Names | None]]:
        """(first second, names in its labels), oldest first; empty if it never named any."""
        if all(value[1] is None for _, _, value in self.history):
            return []
        return timelines.distinct(
            (second, value[1]) for second, value in timelines.changes(self.history)
        )

    @property
    def deadline_s(self) -> int | None:
        """How many seconds after its start the workload is ended, as its newest observation says; None for no deadline."""
        return self.asked.ask.deadline_s if self.asked and self.asked.ask else None


def keys(fact: WorkloadObserved | WorkloadVanished, event: Event) -> tuple[Key]:
    """One object: (uid,)."""
    return ((fact.uid,),)


def fold(
    row: WorkloadHistory | None, fact: WorkloadObserved | WorkloadVanished, event: Event
) -> WorkloadHistory:
    """The object with one more observation."""
    row = row or WorkloadHistory(event.cluster, fact.uid, fact.namespace, fact.kind, fact.name)
    history, gone, asked = row.history, row.gone, row.asked
    if isinstance(fact, WorkloadVanished):
        gone = timelines.later(gone, (fact.resource_version, event.time_us))
    else:
        value = (fact.owner, names(fact.labels))
        history = timelines.added(history, fact.resource_version, event.time_us, value)
        asked = _newer(asked, _asked(fact, event))
    if (history, gone, asked) == (row.history, row.gone, row.asked):
        return row
    return msgspec.structs.replace(
        row, history=history, gone=gone, asked=asked, sequence=event.sequence
    )


def _asked(fact: WorkloadObserved, event: Event) -> RequestedAmounts | None:
    """The demand in ``fact``; None without one (version 1)."""
    ask = None
    if fact.demand is not None:
        ask = Ask(
            fact.demand,
            fact.pods,
            fact.deadline_s,
            fact.suspended,
            {key: fact.labels[key] for key in QUOTA_LABELS if fact.labels.get(key)},
            per_replica=fact.per_replica,
            replicas=fact.replicas,
        )
    elif UNREADABLE not in fact.notes:
        return None
    return RequestedAmounts(fact.resource_version, event.time_us, ask)


def _newer(
    known: RequestedAmounts | None, other_demand: RequestedAmounts | None
) -> RequestedAmounts | None:
    if known is None or other_demand is None:
        return known or other_demand
    one, other = (
        (known.resource_version, known.time_us),
        (other_demand.resource_version, other_demand.time_us),
    )
    if one == other:
        # One version is one demand; after a writer's violation, arrival must not choose.
        return min(known, other_demand, key=repr)
    return other_demand if timelines.replaces(*other, one) else known


def is_same_word(before: WorkloadHistory | None, after: WorkloadHistory) -> bool:
    """Whether its pods' inputs are unchanged."""
    if before is None:
        # A reference to it counts from now on only where it says this kind and namespace.
        return False
    if (
        before.history
        and after.history[:-1] == before.history
        and after.history[-1][2] == before.history[-1][2]
        and after.history[-1][1] >= before.history[-1][1]
    ):
        return before.deadline_s == after.deadline_s
    known = (before.owner, before.quotas(), before.deadline_s)
    return known == (after.owner, after.quotas(), after.deadline_s)


class Controlled(msgspec.Struct, frozen=True, gc=False):
    """An object with its named controller."""

    uid: str
    kind: str
    namespace: str
    owner: Owner | None


class Tops(NamedTuple):
    """The controllers above an object; None for an object without one."""

    #: The end of the chain, and the end of its part with answering controllers.
    end: Owner | None
    charged: Owner | None


def tops(
    found: Controlled,
    find: Callable[[str], WorkloadHistory | None],
    is_own: Callable[[Controlled, Owner], bool],
) -> Tops:
    """The ends of the chain of controllers above an object.

    An unobserved controller ends the chain: its reference still names it. One of another kind or namespace than the
    reference is no controller. One without responsibility for the object (``is_own``) ends the charged part. A
    cycle ends where it closes.
    """
    end: Owner | None = None
    charged: Owner | None = None
    is_charged = True
    seen: set[str] = set()
    while (owner := found.owner) is not None:
        row = find(owner.uid)
        if row is not None and (row.kind, row.namespace) != (owner.kind, found.namespace):
            break
        is_charged = is_charged and not is_own(found, owner)
        end = owner
        if is_charged:
            charged = owner
        if row is None or owner.uid in seen or len(seen) == DEPTH:
            break
        seen.add(owner.uid)
        found = Controlled(row.uid, row.kind, row.namespace, row.owner)
    return Tops(end, charged)


def _shown(row: WorkloadHistory) -> dict[str, Any]:
    return {
        "owner_uid": row.owner.uid if row.owner else None,
        "vanished": int(timelines.is_gone(row.history, row.gone)),
    }


codec = Codec(
    WorkloadHistory, workloads, packed={"state": ("history", "gone", "asked")}, shown=_shown
)

projection = Projection(
    name="workloads",
    version=4,
    table=workloads,
    facts=(WorkloadObserved, WorkloadVanished),
    keys=keys,
    fold=fold,
    codec=codec,
)

"""Placements by the scheduler: the node chosen for each pod, and the binder's report.

One row for each placement, by the pod's uid and the id of its pass. The result on the node is not in the row: the
pod itself reports it (:mod:`projections.pod_runs`), and ``v1_bind_decisions`` joins both. A binding decision keeps
neither the best nodes nor refusals: the pass in the archive has them.

Of a shadow a pod has one row, for the newest attempt: a pod without a binder is tried again every few minutes. It
keeps the best nodes with their scores, for comparison with the real placement, or the fact that every node refused
the pod.

Source: docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.decisions import BindSettled, FailedBind, SchedulingPassed, TriedPod
from projections.engine.codec import Codec
from projections.engine.contract import Integer, Key, Projection, row_table

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]

bind_decisions = row_table(
    "bind_decisions",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, primary_key=True),
    # The id of the pass; empty of a shadow.
    sa.Column("decision", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # Empty where only an outcome was seen.
    sa.Column("profile", sa.Text, nullable=False),
    sa.Column("is_shadow", sa.Integer, nullable=False),
    sa.Column("at_us", Integer, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    # JSON: the cards of the node, and of a shadow the best nodes with their scores.
    sa.Column("cards", sa.Text, nullable=False),
    sa.Column("top", sa.Text, nullable=False),
    sa.Column("feasible", Integer, nullable=False),
    sa.Column("result", sa.Text),
    sa.Column("message", sa.Text),
    sa.Column("settled_us", Integer),
    # Of a shadow the id of the pass; empty where no node took the pod.
    sa.Column("shadow_pass", sa.Text, nullable=False),
)


class BindDecision(msgspec.Struct, frozen=True):
    """A placement of one pod, and the error of its bind, as far as both were observed."""

    cluster: str
    uid: str
    decision: str
    namespace: str = ""
    name: str = ""
    profile: str = ""
    is_shadow: bool = False
    at_us: int = 0
    node: str = ""
    cards: tuple[int, ...] = ()
    top: dict[str, int] = {}
    feasible: int = 0
    result: str | None = None
    message: str | None = None
    settled_us: int | None = None
    shadow_pass: str = ""
    sequence: int = 0


class _Tried(msgspec.Struct, frozen=True):
    """One pod of a pass."""

    fact: SchedulingPassed
    pod: TriedPod


def parts(fact: SchedulingPassed | BindSettled) -> Iterator[_Tried | FailedBind]:
    """One part for each pod with a row."""
    if isinstance(fact, BindSettled):
        yield from (one for one in fact.failed if one.decision)
        return
    yield from (_Tried(fact, pod) for pod in fact.pods if pod.node >= 0 or fact.is_shadow)


def keys(part: _Tried | FailedBind, event: Event) -> tuple[Key]:
    """(cluster, uid, id of the pass, of a shadow "")."""
    if isinstance(part, FailedBind):
        return ((event.cluster, part.uid, part.decision),)
    return ((event.cluster, part.pod.uid, "" if part.fact.is_shadow else event.id),)


def fold(row: BindDecision | None, part: _Tried | FailedBind, event: Event) -> BindDecision:
    """The placement with one more word about it."""
    if row is None:
        cluster, uid, decision = keys(part, event)[0]
        row = BindDecision(cluster, uid, decision)
    if isinstance(part, FailedBind):
        before = row.settled_us or event.time_us, row.result or "", row.message or ""
        if row.result and before <= (event.time_us, part.result, part.message):
            return row
        return msgspec.structs.replace(
            row, result=part.result, message=part.message, settled_us=event.time_us,
            sequence=event.sequence,
        )  # fmt: skip
    fact, pod = part.fact, part.pod
    shadow_pass = event.id if fact.is_shadow and pod.node >= 0 else ""
    # Of two attempts at one time either may be read first.
    if row.profile and (row.at_us, row.shadow_pass) >= (fact.at_us, shadow_pass):
        return row
    return msgspec.structs.replace(
        row, namespace=pod.namespace, name=pod.name, profile=fact.profile, is_shadow=fact.is_shadow,
        at_us=fact.at_us, node=fact.nodes[pod.node] if pod.node >= 0 else "", cards=pod.cards,
        top=_top(fact, pod) if fact.is_shadow else {}, feasible=pod.feasible, shadow_pass=shadow_pass,
        sequence=event.sequence,
    )  # fmt: skip


def _top(fact: SchedulingPassed, pod: TriedPod) -> dict[str, int]:
    """The best nodes and the sums of their scores."""
    pairs = zip(pod.top[::2], pod.top[1::2], strict=True)
    return {fact.nodes[node]: sum(fact.scores[scores]) for node, scores in pairs}


def of(
    select: Select, cluster: str, decision: str, uids: Collection[str], most: int
) -> list[tuple[str, str, int]]:
    """(uid, id of the pass, last event) of the newest placements of these pods, or of this pass; the oldest first."""
    columns, asked = bind_decisions.c, decision or None
    found = sa.case((columns.is_shadow == 1, columns.shadow_pass), else_=columns.decision)
    query = (
        sa.select(columns.uid, found, columns.sequence)
        .where(columns.cluster == cluster, columns.profile != "")
        .where(sa.or_(columns.uid.in_(sorted(uids)), found == asked))
        .order_by(columns.at_us.desc(), columns.uid)
        .limit(most)
    )
    return [(uid, id, int(sequence)) for uid, id, sequence in reversed(select(query))]


codec = Codec(BindDecision, bind_decisions)

projection = Projection(
    name="bind_decisions",
    version=2,
    table=bind_decisions,
    facts=(SchedulingPassed, BindSettled),
    keys=keys,
    fold=fold,
    codec=codec,
    parts=parts,
)

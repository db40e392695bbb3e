"""The decisions of reactors, each with its object and its outcome.

One row for each decision, by its id. Decision and outcome may arrive in any order. Of two decisions with one id, the
smaller text is kept; of two outcomes, the earlier.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events import VOCABULARY
from bus.events.decisions import Decision, EffectSettled
from projections.engine.codec import Codec, Named, text
from projections.engine.contract import Integer, Key, Projection, row_table

#: Wire type to class, of every decision there is.
VERBS: dict[str, type[Decision]] = {
    name: fact for name, fact in VOCABULARY.items() if issubclass(fact, Decision)
}

decisions = row_table(
    "decisions",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    # Null where only an outcome was seen.
    sa.Column("type", sa.Text),
    sa.Column("reactor", sa.Text),
    # Its object: a pod's uid, or the undone decision.
    sa.Column("key", sa.Text),
    sa.Column("kind", sa.Text),
    sa.Column("namespace", sa.Text),
    sa.Column("name", sa.Text),
    sa.Column("uid", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("is_shadow", sa.Integer),
    sa.Column("at_us", Integer),
    sa.Column("numbers", sa.Text),
    # Null while it is outstanding, and of a shadow for ever.
    sa.Column("result", sa.Text),
    sa.Column("message", sa.Text),
    sa.Column("settled_us", Integer),
    sa.Column("body", sa.Text, nullable=False),
    # Empty where it is about none.
    sa.Column("quota", sa.Text),
    sa.Index("decisions_by_key", "key"),
)


class Decided(msgspec.Struct, frozen=True):
    """A decision and its outcome, as far as they were observed. ``settled_us`` 0 = without outcome."""

    cluster: str
    id: str
    decision: Decision | None = None
    settled: EffectSettled | None = None
    settled_us: int = 0
    sequence: int = 0


def keys(fact: Decision | EffectSettled, event: Event) -> tuple[Key]:
    """(cluster, id)."""
    return ((event.cluster, fact.id if isinstance(fact, Decision) else fact.decision),)


def fold(row: Decided | None, fact: Decision | EffectSettled, event: Event) -> Decided:
    """The decision with one more word about it."""
    row = row or Decided(event.cluster, keys(fact, event)[0][1])
    if isinstance(fact, Decision):
        if row.decision is not None and _text(row.decision) <= _text(fact):
            return row
        return msgspec.structs.replace(row, decision=fact, sequence=event.sequence)
    if row.settled is not None and (row.settled_us, _text(row.settled)) <= (
        event.time_us,
        _text(fact),
    ):
        return row
    return msgspec.structs.replace(
        row, settled=fact, settled_us=event.time_us, sequence=event.sequence
    )


def _text(fact: Decision | EffectSettled) -> str:
    return fact.wire_type + msgspec.json.encode(fact).decode()


class _Body(msgspec.Struct):
    """Both facts as published."""

    decision: msgspec.Raw = msgspec.field(name="said", default=msgspec.Raw(b"null"))
    settled: EffectSettled | None = None


def _shown(row: Decided) -> dict[str, Any]:
    decided, settled = row.decision, row.settled
    target = decided.target if decided else None
    body = _Body(msgspec.Raw(msgspec.json.encode(decided)), settled)
    return {
        "type": decided.wire_type if decided else None,
        "reactor": decided.reactor if decided else None,
        "key": decided.key if decided else None,
        "kind": target.kind if target else None,
        "namespace": target.namespace if target else None,
        "name": target.name if target else None,
        "uid": target.uid if target else None,
        "reason": decided.reason if decided else None,
        "is_shadow": int(decided.is_shadow) if decided else None,
        "at_us": decided.at_us if decided else None,
        "numbers": text(decided.numbers) if decided else None,
        "result": settled.result if settled else None,
        "message": settled.message if settled else None,
        "settled_us": row.settled_us if settled else None,
        "body": text(body),
        "quota": decided.quota if decided else None,
    }


def _known(named: Named) -> dict[str, Any]:
    body = msgspec.json.decode(named["body"], type=_Body)
    verb = VERBS[named["type"]] if named["type"] else None
    return {
        "decision": msgspec.json.decode(body.decision, type=verb) if verb else None,
        "settled": body.settled,
        "settled_us": named["settled_us"] or 0,
    }


codec = Codec(Decided, decisions, shown=_shown, known=_known)

projection = Projection(
    name="decisions",
    version=2,
    table=decisions,
    facts=(*VERBS.values(), EffectSettled),
    keys=keys,
    fold=fold,
    codec=codec,
)

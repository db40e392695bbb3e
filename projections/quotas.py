"""Which quotas are there, below which, and what do they allow?

One row for each quota by uid, as its newest observation says; what it said before lies in the history. A namesake that
is created again is another row, so parents, which are named, are looked for among those that are not vanished.

Source: ``koordinator.md`` sections 1 and 2.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.events.quotas import QuotaObserved, QuotaVanished
from projections import histories
from projections.attribution import Rule
from projections.engine.contract import Key, Projection, row_table

quotas = row_table(
    "quotas",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("parent", sa.Text),
    sa.Column("tree", sa.Text),
    sa.Column("hard", sa.Text),
    sa.Column("cash", sa.Text),
    sa.Column("min", sa.Text),
    sa.Column("max", sa.Text),
    sa.Column("period", sa.Text),
    sa.Column("problem", sa.Text),
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Index("quotas_by_name", "cluster", "name"),
    sa.Index("quotas_by_parent", "cluster", "parent"),
)


#: Parent, and the namespaces that are named.
RuleValue = tuple[str, tuple[str, ...]]

#: Of an ElasticQuota: when it was created ("" for not said), the namespaces that it lists, and whether it holds quotas.
ElasticValue = tuple[str, tuple[str, ...], bool]


class Quota(msgspec.Struct, frozen=True):
    """One quota, by uid. ``gone`` is its newest delete (resourceVersion, microseconds)."""

    cluster: str
    uid: str
    kind: str
    namespace: str
    name: str
    #: Its newest observation, seen first at ``time_us``; None where only its delete was seen.
    said: QuotaObserved | None = None
    time_us: int = 0
    gone: tuple[str, int] | None = None
    #: Below which quota it stood, and which namespaces it named, over time; only where that was observed.
    rules: tuple[tuple[str, int, RuleValue], ...] = ()
    #: What an ElasticQuota said of whom it serves, over time.
    elastic: tuple[tuple[str, int, ElasticValue], ...] = ()
    sequence: int = 0

    @property
    def vanished(self) -> bool:
        """Whether it is no longer there."""
        if self.said is None:
            return True
        return histories.is_gone(((self.said.resource_version, self.time_us, None),), self.gone)


def keys(fact: QuotaObserved | QuotaVanished, event: Event) -> tuple[Key]:
    """One quota: (uid,)."""
    return ((fact.uid,),)


def fold(row: Quota | None, fact: QuotaObserved | QuotaVanished, event: Event) -> Quota:
    """The quota with one more observation; an older one than the newest changes nothing."""
    row = row or Quota(event.cluster, fact.uid, fact.kind, fact.namespace, fact.name)
    seen = (fact.resource_version, event.time_us)
    if isinstance(fact, QuotaVanished):
        gone = histories.later(row.gone, seen)
        if gone == row.gone:
            return row
        return msgspec.structs.replace(row, gone=gone, sequence=event.sequence)
    rules, elastic = row.rules, row.elastic
    if fact.kind == "ElasticQuota":
        created = fact.created or ""
        if created:
            parse_stamp(created)  # One that cannot be read is no observation.
        elastic = histories.added(elastic, *seen, (created, fact.namespaces, fact.is_parent))
    elif fact.serves is not None and fact.kind == "BizGroupResourceQuota":
        rules = histories.added(rules, *seen, (fact.parent, fact.serves.namespaces))
    newest = (row.said.resource_version, row.time_us) if row.said else None
    if histories.replaces(*seen, newest):
        return msgspec.structs.replace(
            row, said=fact, time_us=event.time_us, rules=rules, elastic=elastic,
            sequence=event.sequence,
        )  # fmt: skip
    if (rules, elastic) == (row.rules, row.elastic):
        return row
    return msgspec.structs.replace(row, rules=rules, elastic=elastic, sequence=event.sequence)


def rule_of(fact: QuotaObserved) -> Rule:
    """Which namespaces a business quota serves, as its object says it."""
    if fact.serves is None:
        return Rule(fact.parent, is_said=False)
    return Rule(fact.parent, fact.serves.namespaces)


_decoder = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_said = msgspec.json.Decoder(QuotaObserved | None)
_gone = msgspec.json.Decoder(tuple[str, int] | None)
_rules = msgspec.json.Decoder(tuple[tuple[str, int, RuleValue], ...])
_elastic = msgspec.json.Decoder(tuple[tuple[str, int, ElasticValue], ...])


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def to_columns(row: Quota) -> tuple[Any, ...]:
    """The row as the table's columns."""
    said = row.said
    shown: tuple[str | None, ...] = (None,) * 8
    if said is not None:
        amounts = map(_text, (said.hard, said.cash, said.min, said.max))
        shown = (said.parent, said.tree, *amounts, said.budget.period, said.problem)
    # Rows of older histories, which say nothing of namespaces, stay as they were.
    served = row.rules or row.elastic
    state = (said, row.time_us, row.gone, *((served,) if served else ()))
    return (
        row.uid,
        row.cluster,
        row.kind,
        row.namespace,
        row.name,
        *shown,
        int(row.vanished),
        _text(state),
        row.sequence,
    )


def from_columns(columns: tuple[Any, ...]) -> Quota:
    """The row that was stored."""
    said, time_us, gone, *more = _decoder.decode(columns[14])
    uid, cluster, kind, namespace, name = columns[:5]
    is_elastic = kind == "ElasticQuota"
    return Quota(
        cluster, uid, kind, namespace, name, _said.decode(said), int(bytes(time_us)), _gone.decode(gone),
        rules=_rules.decode(more[0]) if more and not is_elastic else (),
        elastic=_elastic.decode(more[0]) if more and is_elastic else (),
        sequence=columns[15],
    )  # fmt: skip


projection = Projection(
    name="quotas",
    version=2,
    table=quotas,
    facts=(QuotaObserved, QuotaVanished),
    keys=keys,
    fold=fold,
    to_columns=to_columns,
    from_columns=from_columns,
)

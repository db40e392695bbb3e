"""The quotas, each with its parent and its limits.

One row for each quota by uid, from its newest observation; earlier ones are in the history. A namesake created
again is another row, so parents, given by name, are searched among existing quotas.

Source: docs/quotas.md.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from bus.clock import parse_stamp
from bus.envelope import Event
from bus.events.quotas import QuotaObserved, QuotaVanished
from projections import timelines
from projections.attribution import AttributionRule
from projections.engine.codec import Codec, Named, text
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


#: Of an ElasticQuota: its creation ("" for missing), its listed namespaces, and whether it holds quotas.
ElasticValue = tuple[str, tuple[str, ...], bool]


class QuotaHistory(msgspec.Struct, frozen=True):
    """One quota, by uid. ``gone`` is its newest delete (resourceVersion, microseconds)."""

    cluster: str
    uid: str
    kind: str
    namespace: str
    name: str
    #: Its newest observation, seen first at ``time_us``; None where only its delete was seen.
    observed: QuotaObserved | None = None
    time_us: int = 0
    gone: tuple[str, int] | None = None
    #: Its parent, and its served namespaces, over time; only if observed.
    rules: tuple[tuple[str, int, AttributionRule], ...] = ()
    #: An ElasticQuota's served namespaces, over time.
    elastic: tuple[tuple[str, int, ElasticValue], ...] = ()
    sequence: int = 0

    @property
    def vanished(self) -> bool:
        """Whether it is no longer there."""
        if self.observed is None:
            return True
        return timelines.is_gone(((self.observed.resource_version, self.time_us, None),), self.gone)


def keys(fact: QuotaObserved | QuotaVanished, event: Event) -> tuple[Key]:
    """One quota: (uid,)."""
    return ((fact.uid,),)


def fold(
    row: QuotaHistory | None, fact: QuotaObserved | QuotaVanished, event: Event
) -> QuotaHistory:
    """The quota with one more observation; an older one than the newest changes nothing."""
    row = row or QuotaHistory(event.cluster, fact.uid, fact.kind, fact.namespace, fact.name)
    seen = (fact.resource_version, event.time_us)
    if isinstance(fact, QuotaVanished):
        gone = timelines.later(row.gone, seen)
        if gone == row.gone:
            return row
        return msgspec.structs.replace(row, gone=gone, sequence=event.sequence)
    rules, elastic = row.rules, row.elastic
    if fact.kind == "ElasticQuota":
        created = fact.created or ""
        if created:
            parse_stamp(created)  # An unreadable one makes the observation invalid.
        elastic = timelines.added(elastic, *seen, (created, fact.namespaces, fact.is_parent))
    elif (rule := rule_of(fact)) is not None:
        rules = timelines.added(rules, *seen, rule)
    newest = (row.observed.resource_version, row.time_us) if row.observed else None
    if timelines.replaces(*seen, newest):
        return msgspec.structs.replace(
            row, observed=fact, time_us=event.time_us, rules=rules, elastic=elastic,
            sequence=event.sequence,
        )  # fmt: skip
    if (rules, elastic) == (row.rules, row.elastic):
        return row
    return msgspec.structs.replace(row, rules=rules, elastic=elastic, sequence=event.sequence)


def rule_of(fact: QuotaObserved) -> AttributionRule | None:
    """The served namespaces in a business quota's object; None if they are missing."""
    if fact.serves is None or fact.kind != "BizGroupResourceQuota":
        return None
    return AttributionRule(fact.parent, fact.serves.namespaces, fact.serves.selector)


_decoder = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_observed_decoder = msgspec.json.Decoder(QuotaObserved | None)
_gone = msgspec.json.Decoder(tuple[str, int] | None)
_rules = msgspec.json.Decoder(tuple[tuple[str, int, AttributionRule], ...])
_elastic = msgspec.json.Decoder(tuple[tuple[str, int, ElasticValue], ...])


def _shown(row: QuotaHistory) -> dict[str, Any]:
    observed = row.observed
    # Rows of older histories, without namespaces, stay as they were.
    served = row.rules or row.elastic
    state = (observed, row.time_us, row.gone, *((served,) if served else ()))
    return {
        "parent": observed.parent if observed else None,
        "tree": observed.tree if observed else None,
        "hard": text(observed.hard) if observed else None,
        "cash": text(observed.cash) if observed else None,
        "min": text(observed.min) if observed else None,
        "max": text(observed.max) if observed else None,
        "period": observed.budget.period if observed else None,
        "problem": observed.problem if observed else None,
        "vanished": int(row.vanished),
        "state": text(state),
    }


def _known(named: Named) -> dict[str, Any]:
    observed, time_us, gone, *served = _decoder.decode(named["state"])
    found = {
        "observed": _observed_decoder.decode(observed), "time_us": int(bytes(time_us)), "gone": _gone.decode(gone)
    }  # fmt: skip
    if served and named["kind"] == "ElasticQuota":
        return {**found, "elastic": _elastic.decode(served[0])}
    return {**found, "rules": _rules.decode(served[0])} if served else found


codec = Codec(QuotaHistory, quotas, shown=_shown, known=_known)

projection = Projection(
    name="quotas",
    version=3,
    table=quotas,
    facts=(QuotaObserved, QuotaVanished),
    keys=keys,
    fold=fold,
    codec=codec,
)

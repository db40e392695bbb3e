"""Admission decisions: the answer to each object's request, with its numbers.

One row for each decision, by the id of its event: an event published twice is one decision. Of two events with one
id the earlier counts, whichever arrived first.

Source: docs/architecture.md (a decision stores its reason, its numbers and the sequence it was based on).
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided
from projections.engine.codec import Codec
from projections.engine.contract import Integer, Key, Projection, row_table

admissions = row_table(
    "admissions",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("tree", sa.Text, nullable=False),
    sa.Column("number", Integer, nullable=False),
    sa.Column("time_us", Integer, nullable=False),
    sa.Column("quota", sa.Text, nullable=False),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("operation", sa.Text, nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("based_on", Integer, nullable=False),
    sa.Column("demand", sa.Text, nullable=False),
    sa.Column("types", sa.Text, nullable=False),
    sa.Column("charge", sa.Text, nullable=False),
    sa.Column("deficits", sa.Text, nullable=False),
    #: Its parts for others: the child with this raise, and the rest of an owner after a release.
    sa.Column("below", sa.Text),
    sa.Index("admissions_by_uid", "uid"),
    sa.Index("admissions_by_quota", "cluster", "quota", "number"),
    sa.Index("admissions_by_name", "cluster", "namespace", "name"),
)


class Decision(msgspec.Struct, frozen=True):
    """One decision, as it was recorded at ``time_us`` in the journal of ``tree``."""

    cluster: str
    id: str
    tree: str
    fact: AdmissionDecided
    time_us: int
    sequence: int = 0


def keys(fact: AdmissionDecided, event: Event) -> tuple[Key]:
    """One decision: (cluster, id)."""
    return ((event.cluster, event.id),)


def fold(row: Decision | None, fact: AdmissionDecided, event: Event) -> Decision:
    """The decision recorded first; the text decides between two of one moment."""
    if row is not None and _order(row.time_us, row.fact) <= _order(event.time_us, fact):
        return row
    return Decision(event.cluster, event.id, event.key, fact, event.time_us, event.sequence)


def _order(time_us: int, fact: AdmissionDecided) -> tuple[int, bytes]:
    return (time_us, msgspec.json.encode(fact))


codec = Codec(Decision, admissions, spread="fact", packed={"below": ("child", "left")})

projection = Projection(
    name="admissions",
    version=2,
    table=admissions,
    facts=(AdmissionDecided,),
    keys=keys,
    fold=fold,
    codec=codec,
)

"""The charges of each quota, by object.

One row for each object (uid) of a quota of a tree. The journal numbers its entries, so the newest entry is the one
with the largest number, in whatever order entries come. A row stays after the release, with no charge: a late entry
must be recognized as late.

A grant counts if its quota stands (:mod:`projections.quota_trees.declared`) and did not leave the tree after it was made.

Source: docs/architecture.md; :class:`projections.quota_trees.tree.Tree`, with the same result for a journal in
order.
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided, AdmissionReleased
from projections.engine.codec import Codec
from projections.engine.contract import Integer, Key, Projection, partial_index, row_table

grants = row_table(
    "grants",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("tree", sa.Text, primary_key=True),
    sa.Column("quota", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("number", Integer, nullable=False),
    sa.Column("decided_us", Integer, nullable=False),
    sa.Column("is_adopted", sa.Integer, nullable=False),
    sa.Column("charge_number", Integer, nullable=False),
    sa.Column("charge", sa.Text, nullable=False),
    sa.Index("grants_by_uid", "uid"),
    # Few of all rows ever: most have released their charge.
    partial_index("grants_holding", "cluster", "tree", "quota", where="charge <> '{}'"),
)


class HeldCharge(msgspec.Struct, frozen=True):
    """The charge of one quota for one object; nothing for an empty ``charge``."""

    cluster: str
    tree: str
    quota: str
    uid: str
    kind: str = ""
    namespace: str = ""
    name: str = ""
    #: Of the newest decision to admit or adopt it, and its time; 0 if only a release was observed.
    number: int = 0
    decided_us: int = 0
    is_adopted: bool = False
    #: Of the newest entry with a charge.
    charge_number: int = 0
    charge: dict[str, int] = {}
    sequence: int = 0


class Word(msgspec.Struct, frozen=True):
    """The content of one journal entry for one grant. ``decision`` None: it was released."""

    number: int
    quota: str
    uid: str
    charge: dict[str, int]
    decision: AdmissionDecided | None = None


def parts(fact: AdmissionDecided | AdmissionReleased) -> tuple[Word, ...]:
    """The content of an entry for each grant; nothing for a refusal."""
    if isinstance(fact, AdmissionReleased):
        return tuple(Word(fact.number, one.quota, one.uid, one.charge) for one in fact.releases)
    if fact.verdict == "refused":
        return ()
    own = Word(fact.number, fact.quota, fact.uid, fact.charge, fact)
    if fact.left is None:
        return (own,)
    return (own, Word(fact.number, fact.quota, fact.left.uid, fact.left.charge))


def keys(word: Word, event: Event) -> tuple[Key]:
    """One grant: (cluster, tree, quota, uid)."""
    return ((event.cluster, event.key, word.quota, word.uid),)


def fold(row: HeldCharge | None, word: Word, event: Event) -> HeldCharge:
    """The grant with one more word of its journal; an older one than the newest changes nothing."""
    row = row or HeldCharge(event.cluster, event.key, word.quota, word.uid)
    decision = word.decision
    if decision is not None and decision.number > row.number:
        row = msgspec.structs.replace(
            row, kind=decision.kind, namespace=decision.namespace, name=decision.name, number=decision.number,
            decided_us=event.time_us, is_adopted=decision.verdict == "adopted", sequence=event.sequence,
        )  # fmt: skip
    if word.number <= row.charge_number:
        return row
    return msgspec.structs.replace(
        row, charge_number=word.number, charge=word.charge, sequence=event.sequence
    )


codec = Codec(HeldCharge, grants)

projection = Projection(
    name="grants",
    version=1,
    table=grants,
    facts=(AdmissionDecided, AdmissionReleased),
    parts=parts,
    keys=keys,
    fold=fold,
    codec=codec,
)

"""The objects admitted in their own right, despite a named controller.

Users write controller references, so admission charges some objects themselves and records their named controller
in the entry (:attr:`bus.events.admissions.AdmissionDecided.owner`). Pods of such an object are charged to its own
quota, and not to that controller's.

Source: docs/admission.md ("Objects below an owner").
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided
from bus.events.pods import Owner
from bus.kube.kinds import is_open
from projections.engine.codec import Codec
from projections.engine.contract import Key, Projection, row_table
from projections.quota_trees.shape import ANY_OWNER, MOST_OWNERS

own_charges = row_table(
    "own_charges",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("owners", sa.Text, nullable=False),
)


class OwnCharge(msgspec.Struct, frozen=True):
    """The controllers named by an object at its admissions in its own right, in order; of very many any."""

    uid: str
    cluster: str
    owners: tuple[str, ...]
    sequence: int = 0

    def has(self, owner: str) -> bool:
        """Whether this controller does not answer for the object."""
        return owner in self.owners or ANY_OWNER in self.owners


def is_own(row: OwnCharge | None, kind: str, owner: Owner) -> bool:
    """Whether an object of this kind was charged itself while it named the controller. The operators of some kinds
    write from any account, so children made by them count there.
    """
    return row is not None and row.has(owner.uid) and not is_open(owner.kind, kind)


def parts(fact: AdmissionDecided) -> tuple[AdmissionDecided, ...]:
    """The entry, if it admits an object with a named controller. One released by its owner names it no more."""
    is_own = fact.owner != "" and fact.verdict == "admitted" and fact.left is None
    return (fact,) if is_own else ()


def keys(fact: AdmissionDecided, event: Event) -> tuple[Key]:
    """One object: (uid,)."""
    return ((fact.uid,),)


def fold(row: OwnCharge | None, fact: AdmissionDecided, event: Event) -> OwnCharge:
    """The object with one more named controller."""
    row = row or OwnCharge(fact.uid, event.cluster, ())
    if fact.owner in row.owners or ANY_OWNER in row.owners:
        return row
    owners = tuple(sorted((*row.owners, fact.owner)))
    if len(owners) > MOST_OWNERS:
        owners = (ANY_OWNER,)
    return msgspec.structs.replace(row, owners=owners, sequence=event.sequence)


codec = Codec(OwnCharge, own_charges)

projection = Projection(
    name="own_charges",
    version=1,
    table=own_charges,
    facts=(AdmissionDecided,),
    parts=parts,
    keys=keys,
    fold=fold,
    codec=codec,
)

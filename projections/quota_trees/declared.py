"""The quotas of each tree: their limits, and admitted changes of unobserved quotas.

Each quota of a tree has one row. The row has the newest observation of the quota by number, and the unsettled
changes. It is computed from all entries of the journal about the quota except refusals, in any order.

Source: docs/architecture.md; :class:`projections.quota_trees.shape.TreeNode` for the rules of the amounts.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.admissions import QuotaDeclared
from projections.engine.codec import Codec, text
from projections.engine.contract import Integer, Key, Projection, row_table
from projections.quota_trees.elastic_tree import ASKED
from projections.quota_trees.shape import ELASTIC, TreeNode

declared_quotas = row_table(
    "declared_quotas",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("tree", sa.Text, primary_key=True),
    sa.Column("quota", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("parent", sa.Text, nullable=False),
    sa.Column("stands", sa.Integer, nullable=False),
    sa.Column("pending", sa.Integer, nullable=False),
    # The entry of its last departure from the tree; earlier grants are void.
    sa.Column("gone_number", Integer, nullable=False),
    sa.Column("hard", sa.Text, nullable=False),
    sa.Column("claims", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Index("declared_quotas_by_parent", "cluster", "tree", "parent"),
)


class DeclaredQuota(msgspec.Struct, frozen=True):
    """One quota of a tree. ``settled`` and ``gone`` are numbers of the journal, 0 for never."""

    cluster: str
    tree: str
    quota: str
    #: The newest observation; its ``spec`` is None for a gone object.
    seen: QuotaDeclared | None = None
    settled: int = 0
    gone: int = 0
    #: Admitted changes still able to land, oldest first.
    asked: tuple[QuotaDeclared, ...] = ()
    sequence: int = 0

    @property
    def node(self) -> TreeNode | None:
        """The quota in its tree, without its charges; None for an absent one."""
        first = self.seen if self.seen is not None and self.seen.spec is not None else None
        declared = first or next(iter(self.asked), None)
        if declared is None:
            return None
        specs = tuple(one.spec for one in self.asked if one.spec is not None)
        uid = declared.uid if first else self.asked[-1].uid
        observed = first.spec if first else None
        return TreeNode(self.quota, uid, declared.kind, declared.parent, observed, specs)


def keys(fact: QuotaDeclared, event: Event) -> tuple[Key, ...]:
    """One quota, unless the answer was no: (cluster, tree, quota)."""
    return () if fact.verdict == "refused" else ((event.cluster, event.key, fact.quota),)


def fold(row: DeclaredQuota | None, fact: QuotaDeclared, event: Event) -> DeclaredQuota:
    """The quota with one more entry of the journal."""
    row = row or DeclaredQuota(event.cluster, event.key, fact.quota, sequence=event.sequence)
    after = _observed(row, fact) if fact.stage == "observed" else _asked(row, fact)
    if after == row:
        return row
    return msgspec.structs.replace(after, sequence=event.sequence)


def _observed(row: DeclaredQuota, fact: QuotaDeclared) -> DeclaredQuota:
    is_gone = fact.spec is None
    settled = max(row.settled, fact.number) if fact.settles or is_gone else row.settled
    is_newest = row.seen is None or fact.number > row.seen.number
    return msgspec.structs.replace(
        row,
        seen=fact if is_newest else row.seen,
        settled=settled,
        gone=max(row.gone, fact.number) if is_gone else row.gone,
        asked=tuple(one for one in row.asked if one.number > settled),
    )


def _asked(row: DeclaredQuota, fact: QuotaDeclared) -> DeclaredQuota:
    known = {one.number for one in row.asked}
    if fact.spec is None or fact.number <= row.settled or fact.number in known:
        return row
    asked = sorted((*row.asked, fact), key=lambda one: one.number)
    return msgspec.structs.replace(row, asked=tuple(asked))


def _shown(row: DeclaredQuota) -> dict[str, Any]:
    """``hard`` of an elastic quota is its ``max``, the most it may ever use."""
    node = row.node
    declared = row.seen or next(iter(row.asked), None)
    about = node or declared
    limits: dict[str, int] = {}
    if node is not None:
        limits = node.limited()
        if node.kind == ELASTIC:
            limits = {ASKED + resource: amount for resource, amount in node.spec.max.items()}
    return {
        "uid": about.uid if about else "",
        "kind": about.kind if about else "",
        "parent": about.parent if about else "",
        "stands": int(node is not None),
        "pending": len(row.asked),
        "gone_number": row.gone,
        "hard": text(limits),
        "claims": text(node.claimed() if node else {}),
    }


codec = Codec(
    DeclaredQuota,
    declared_quotas,
    packed={"state": ("seen", "settled", "gone", "asked")},
    shown=_shown,
)

projection = Projection(
    name="declared_quotas",
    version=1,
    table=declared_quotas,
    facts=(QuotaDeclared,),
    keys=keys,
    fold=fold,
    codec=codec,
)

"""The decision about a quota: may it be in its tree with these limits? Pure.

A child's limit is taken from its parent as a whole, used or not: ``used`` of a parent is the sum of its own
workloads and of its children's limits. A raise counts for the parent from its
admission, and for the quotas below only after its observation. A cut counts the other way round
(:class:`projections.quota_trees.tree.TreeNode`).

Source: docs/quotas.md (tree webhook); docs/wrong-input.md.
"""

from __future__ import annotations

import msgspec

from bus.events.admissions import Deficit, QuotaDeclared, QuotaSpec
from projections.quota_trees import TreeNode, TreeOverlay
from projections.quota_trees.elastic import review
from projections.quota_trees.elastic.rules import with_defaults
from projections.quota_trees.elastic.topology import Topology
from projections.quota_trees.elastic_tree import quota_of
from projections.quota_trees.shape import BUSINESS, ELASTIC
from reactors.admission.deciding.decide import over

#: Levels of a tree and children of a quota (docs/wrong-input.md C7).
MAX_LEVELS = 16
MAX_CHILDREN = 5_000
#: Unfinished changes of one quota at once.
MAX_PENDING = 16


class Proposal(msgspec.Struct, frozen=True):
    """A quota as a review wants to create, change or delete it (``spec`` None)."""

    operation: str
    name: str
    uid: str
    parent: str
    spec: QuotaSpec | None
    request: str = ""
    #: Parent in the stored object, for an update.
    old_parent: str = ""


def declare(draft: TreeOverlay, proposal: Proposal, now_us: int) -> QuotaDeclared:
    """The answer to a proposal about a BizGroupResourceQuota on top of ``draft``.

    Reasons: ``fits``; ``name-exists``; ``parent-immutable``; ``parent-unknown``; ``parent-unready``;
    ``own-parent``; ``too-deep``; ``too-many-children``; ``too-many-changes``; ``missing-keys`` (a child names every key of
    its parent); ``over-parent`` with the deficits; ``has-children``; ``in-use``. Lowering a limit
    below what is used is admitted: from then on nothing that rises fits.
    """
    if proposal.spec is None:
        return _deleted(draft, proposal)
    node = draft.node(proposal.name)
    if proposal.operation == "CREATE" and node is not None:
        # The same one may be asked for again: whether the first ask was stored is not known yet.
        if node.observed is not None or node.parent != proposal.parent:
            return _answer(draft, proposal, "name-exists")
    if proposal.operation == "UPDATE" and proposal.parent != proposal.old_parent:
        return _answer(draft, proposal, "parent-immutable")
    if node is not None and len(node.asked) >= MAX_PENDING:
        return _answer(draft, proposal, "too-many-changes")
    missing = _missing_below(draft, node, proposal.spec)
    if missing:
        return _answer(draft, proposal, "missing-keys", keys=missing)
    if not proposal.parent:
        return _answer(draft, proposal, "fits")
    return _under(draft, proposal, node, proposal.spec)


def declare_elastic(draft: TreeOverlay, proposal: Proposal, now_us: int) -> QuotaDeclared:
    """The answer to a proposal about an ElasticQuota: Koordinator's rules, with their reasons.

    Admitted proposals count at once. Source: docs/quotas.md.
    """
    nodes = [n for n in draft.nodes() if n.kind == ELASTIC]
    topology = Topology(with_defaults(quota_of(n.name, n.parent, n.spec), None) for n in nodes)
    node = draft.node(proposal.name)
    has_pods = node is not None and draft.holds(node)
    if proposal.spec is None:
        refusal = review.delete(topology, proposal.name, has_pods=has_pods)
    else:
        quota = quota_of(proposal.name, proposal.parent, proposal.spec)
        quota = with_defaults(quota, topology.get(quota.parent))
        if proposal.operation == "CREATE":
            refusal = review.create(topology, quota)
        else:
            refusal = review.update(topology, quota, has_pods=has_pods)
    reason = refusal.reason.replace("_", "-") if refusal else "fits"
    return _answer(draft, proposal, reason, keys=refusal.keys if refusal else (), kind=ELASTIC)


def _under(
    draft: TreeOverlay, proposal: Proposal, node: TreeNode | None, spec: QuotaSpec
) -> QuotaDeclared:
    parent = draft.node(proposal.parent)
    above = _above(draft, proposal.parent)
    if proposal.name in above:
        return _answer(draft, proposal, "own-parent")
    if parent is None:
        return _answer(draft, proposal, "parent-unknown")
    if parent.observed is None or parent.spec.problem:
        return _answer(draft, proposal, "parent-unready")
    if len(above) >= MAX_LEVELS:
        return _answer(draft, proposal, "too-deep")
    if proposal.name not in parent.children and len(parent.children) >= MAX_CHILDREN:
        return _answer(draft, proposal, "too-many-children")
    missing = tuple(sorted(parent.limited().keys() - spec.hard.keys()))
    if missing:
        return _answer(draft, proposal, "missing-keys", keys=missing)
    claimed = parent.children.get(proposal.name, {})
    rises = {
        key: spec.hard[key] - claimed.get(key, 0)
        for key in parent.limited()
        if spec.hard[key] > claimed.get(key, 0)
    }
    deficits = over(draft, parent, rises)
    if deficits:
        return _answer(draft, proposal, "over-parent", deficits=deficits)
    return _answer(draft, proposal, "fits")


def _deleted(draft: TreeOverlay, proposal: Proposal) -> QuotaDeclared:
    node = draft.node(proposal.name)
    if node is not None and node.children:
        return _answer(draft, proposal, "has-children")
    if node is not None and draft.holds(node):
        return _answer(draft, proposal, "in-use")
    return _answer(draft, proposal, "fits")


def _missing_below(draft: TreeOverlay, node: TreeNode | None, spec: QuotaSpec) -> tuple[str, ...]:
    """Keys new to ``spec`` without a limit in a child of the quota."""
    if node is None:
        return ()
    new = spec.hard.keys() - node.spec.hard.keys()
    return tuple(sorted(k for k in new if any(k not in c for c in node.children.values())))


def _above(draft: TreeOverlay, name: str) -> list[str]:
    """The quota ``name`` and those above it, the next one first; a cycle ends at the deepest level."""
    names: list[str] = []
    while name and len(names) < MAX_LEVELS:
        names.append(name)
        node = draft.node(name)
        name = node.parent if node is not None else ""
    return names


def _answer(
    draft: TreeOverlay,
    proposal: Proposal,
    reason: str,
    *,
    deficits: tuple[Deficit, ...] = (),
    keys: tuple[str, ...] = (),
    kind: str = BUSINESS,
) -> QuotaDeclared:
    spec = proposal.spec
    if reason == "fits" and spec is None:
        # Until the delete is observed nothing more is admitted here. If it never is, the reconciler records that.
        node = draft.node(proposal.name)
        spec = (
            QuotaSpec(hard=dict.fromkeys(node.spec.hard, 0), problem="it is being deleted")
            if node
            else None
        )
    return QuotaDeclared(
        number=draft.number,
        quota=proposal.name,
        uid=proposal.uid,
        kind=kind,
        parent=proposal.parent,
        stage="asked",
        verdict="admitted" if reason == "fits" else "refused",
        reason=reason,
        spec=spec,
        deficits=deficits,
        keys=keys,
        based_on=draft.tree.sequence,
        request=proposal.request,
        operation=proposal.operation,
        old_parent=proposal.old_parent,
    )

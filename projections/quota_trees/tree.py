"""One quota tree from its journal: nodes, grants, meters, and the usage of each key.

``used = self_used + the children's limits``, per key, at every node. A decision reads a :class:`TreeOverlay`: the
tree with unstored decisions on top, so many requests can be decided one after the other and appended together, or
dropped together when another process was faster. The same draft serves the webhook, the keeper and the model
checker.

Source: docs/quotas.md; docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bus.errors import HistoryDivergedError
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    Meter,
    QuotaDeclared,
    TreeMetered,
)
from projections.engine.parts import Part
from projections.quota_trees.elastic_tree import Elastic, SavedElastic
from projections.quota_trees.grants import grown, without
from projections.quota_trees.shape import ELASTIC, Grant, TreeNode, spent
from projections.quota_trees.unmet import Refused, SavedRefused, Unmet

#: Most counted demands of one tree: each is one division.
MOST_COUNTED = 100

Fact = AdmissionDecided | AdmissionReleased | QuotaDeclared | TreeMetered


class SavedTree(msgspec.Struct):
    """The part of a snapshot for a tree."""

    name: str
    number: int
    sequence: int
    nodes: dict[str, TreeNode]
    meters: dict[tuple[str, str], Meter]
    total: dict[str, int]
    elastic: SavedElastic
    refused: SavedRefused


class Tree(Part):
    """A tree after ``number`` entries of its journal, the last of them at ``sequence``."""

    Saved = SavedTree
    derived = frozenset({"holders"})

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.sequence = 0
        self.nodes: dict[str, TreeNode] = {}
        #: Object (uid) to the quotas with a charge for it.
        self.holders: dict[str, set[str]] = {}
        self.meters: dict[tuple[str, str], Meter] = {}
        self.total: dict[str, int] = {}
        self.elastic = Elastic()
        #: Refused for want of room, and still wanted.
        self.refused = Refused()

    def restore(self, saved: SavedTree) -> None:
        """Load the saved state, in a new tree. The objects with charges are computed from the grants."""
        super().restore(saved)
        for node in self.nodes.values():
            for uid in node.grants:
                self.holders.setdefault(uid, set()).add(node.name)

    def apply(self, fact: Fact, sequence: int, time_us: int) -> None:
        """Take in the next entry of the journal.

        Raises HistoryDivergedError for an out-of-order entry. Known entries are ignored.
        """
        is_known = sequence == self.sequence and fact.number <= self.number
        if sequence < self.sequence or is_known:
            return
        if fact.number != self.number + 1:
            raise HistoryDivergedError(
                "an entry of the tree's journal is missing",
                tree=self.name, expected=self.number + 1, found=fact.number,
            )  # fmt: skip
        self.number, self.sequence = fact.number, sequence
        if isinstance(fact, AdmissionDecided):
            self._decided(fact, time_us)
        elif isinstance(fact, AdmissionReleased):
            for release in fact.releases:
                self._released(release.quota, release.uid, release.charge)
        elif isinstance(fact, QuotaDeclared):
            self._declared(fact, time_us)
        else:
            self.meters.update({(m.quota, m.key): m for m in fact.meters})
            if fact.total is not None:
                self.total = fact.total
                self.elastic.set_total(fact.total)

    def skip(self, sequence: int) -> None:
        """The event at ``sequence`` is no entry of this journal; the next decision is appended behind it."""
        self.sequence = max(self.sequence, sequence)

    def _decided(self, fact: AdmissionDecided, time_us: int) -> None:
        node = self.nodes.get(fact.quota)
        if node is None:
            return
        before = node.grants.get(fact.uid)
        self.refused.apply(fact, before.charge if before else {}, time_us)
        if fact.verdict == "refused":
            return
        self.elastic.met(fact.kind, fact.namespace, fact.name)
        if fact.left is not None and (owner := node.grants.get(fact.left.uid)) is not None:
            self._hold(node, without(owner, fact.left))
        self._hold(node, grown(before, fact, time_us))

    def count(self, waiting: Iterable[Unmet]) -> None:
        """Count refused and waiting demands as wanted, if limits leave room for them; the oldest request comes first."""
        unmet = sorted((*self.refused, *waiting), key=lambda one: one.place)
        self.elastic.count([one for one in unmet if self._has_room(one)][:MOST_COUNTED])

    def _has_room(self, one: Unmet) -> bool:
        """Whether the fixed limits of its quota have room for it."""
        node = self.nodes.get(one.quota)
        if node is None or not node.is_elastic:
            return False
        limits = {key: node.limit(key) for key in one.wants} if node.kind != ELASTIC else {}
        return all(
            limit is None or node.used(key) + one.wants[key] <= limit
            for key, limit in limits.items()
        )

    def _released(self, quota: str, uid: str, charge: dict[str, int]) -> None:
        node = self.nodes.get(quota)
        grant = node.grants.get(uid) if node else None
        if node is None or grant is None:
            return
        if charge:
            self._hold(node, msgspec.structs.replace(grant, charge=charge))
        else:
            self._count(node, grant, -1)
            del node.grants[uid]
            self._let_go(quota, uid)

    def _hold(self, node: TreeNode, grant: Grant) -> None:
        before = node.grants.get(grant.uid)
        if before is not None:
            self._count(node, before, -1)
        node.grants[grant.uid] = grant
        self.holders.setdefault(grant.uid, set()).add(node.name)
        self._count(node, grant, 1)

    def _count(self, node: TreeNode, grant: Grant, sign: int) -> None:
        own = node.by_namespace.setdefault(grant.namespace, {})
        for key, amount in grant.charge.items():
            for sums in (node.self_used, own):
                left = sums.get(key, 0) + sign * amount
                if left:
                    sums[key] = left
                else:
                    sums.pop(key, None)
        if not own:
            del node.by_namespace[grant.namespace]
        if self.elastic.is_used:
            self.elastic.hold(node.name, grant.charge, sign)

    def _let_go(self, quota: str, uid: str) -> None:
        holders = self.holders[uid]
        holders.discard(quota)
        if not holders:
            del self.holders[uid]

    def _declared(self, fact: QuotaDeclared, time_us: int) -> None:
        if fact.verdict == "refused":
            return
        node = self.nodes.get(fact.quota)
        if fact.spec is None:
            if node is not None and fact.stage == "observed":
                self.nodes.pop(fact.quota)
                for grant in node.grants.values():
                    self._count(node, grant, -1)
                self.elastic.set_quota(node.name, node.parent, None)
                for uid in node.grants:
                    self._let_go(node.name, uid)
                self._claim(node, remove=True)
            return
        if node is None:
            node = TreeNode(fact.quota, fact.uid, fact.kind, fact.parent)
            self.nodes[fact.quota] = node
            adopt_children(node, self.nodes.values())
        if fact.stage == "observed":
            if node.parent != fact.parent:
                self._claim(node, remove=True)
            node.uid, node.parent, node.observed = fact.uid, fact.parent, fact.spec
            if fact.settles:
                node.asked = ()
        else:
            node.ask(fact.uid, fact.spec, time_us)
        self._claim(node)
        if node.observed is not None and node.is_elastic:
            above = self.nodes.get(node.parent)
            parent = node.parent if above is not None and above.is_elastic else ""
            if not self.elastic.is_used:
                self._tell_elastic()
            self.elastic.set_quota(node.name, parent, node.observed)

    def _tell_elastic(self) -> None:
        """Without an elastic quota there is no division, so charges are passed on when the first one appears."""
        for node in self.nodes.values():
            for grant in node.grants.values():
                self.elastic.hold(node.name, grant.charge, 1)

    def _claim(self, node: TreeNode, *, remove: bool = False) -> None:
        parent = self.nodes.get(node.parent)
        if parent is not None:
            parent.claim(node.name, None if remove else node.claimed())


def restored(saved: SavedTree) -> Tree:
    """The saved tree."""
    tree = Tree(saved.name)
    tree.restore(saved)
    return tree


def adopt_children(node: TreeNode, nodes: Iterable[TreeNode]) -> None:
    """Let a new node answer for the existing quotas with it as their named parent."""
    for child in nodes:
        if child.parent == node.name:
            node.claim(child.name, child.claimed())


class TreeOverlay:
    """A tree, and unstored decisions about it. The cost of a read depends on the changes of the decisions.

    Answers count at once. Observations (releases, quotas, meters) count when they are stored.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        #: The last entry of its journal.
        self.known = tree.sequence
        self.facts: list[tuple[Fact, int]] = []
        self._grants: dict[tuple[str, str], Grant] = {}
        #: The additions of the decisions, by quota and key; the same by quota and namespace, and key.
        self._held: dict[str, dict[str, int]] = {}
        self._own: dict[tuple[str, str], dict[str, int]] = {}
        self._nodes: dict[str, TreeNode] = {}

    @property
    def number(self) -> int:
        """The number of the next entry."""
        return self.tree.number + len(self.facts) + 1

    def node(self, name: str) -> TreeNode | None:
        """A quota by name."""
        return self._nodes.get(name) or self.tree.nodes.get(name)

    def nodes(self) -> list[TreeNode]:
        """Every quota of the tree, by name."""
        return [node for _, node in sorted({**self.tree.nodes, **self._nodes}.items())]

    def grant(self, quota: str, uid: str) -> Grant | None:
        """A quota's charge for an object."""
        found = self._grants.get((quota, uid))
        if found is None and (node := self.tree.nodes.get(quota)) is not None:
            found = node.grants.get(uid)
        return found

    def of(self, uid: str) -> list[Grant]:
        """The charges of all the tree's quotas for an object."""
        quotas = {*self.tree.holders.get(uid, ()), *(q for q, one in self._grants if one == uid)}
        return [grant for quota in sorted(quotas) if (grant := self.grant(quota, uid)) is not None]

    def holds(self, node: TreeNode) -> bool:
        """Whether a quota holds something for any object."""
        return bool(node.grants) or any(quota == node.name for quota, _ in self._grants)

    def used(self, node: TreeNode, key: str) -> int:
        """The usage of a key, decisions of the draft included."""
        used = node.used(key)
        held = self._held.get(node.name)
        return used + held.get(key, 0) if held else used

    def limits(self, node: TreeNode, rises: Mapping[str, int]) -> dict[str, int | None]:
        """The limit of ``node`` for each of the rising keys if they rise; None = not limited."""
        limits = {key: node.limit(key) if node.kind != ELASTIC else None for key in rises}
        if not node.is_elastic:
            return limits
        pending: dict[str, dict[str, int]] = {node.name: dict(rises)}
        for quota, amounts in self._held.items():
            held = pending.setdefault(quota, {})
            for key, amount in amounts.items():
                held[key] = held.get(key, 0) + amount
        runtime = self.tree.elastic.limits(node.name, pending.items())
        for key in rises.keys() & runtime.keys():
            limit = limits[key]
            limits[key] = runtime[key] if limit is None else min(limit, runtime[key])
        return limits

    def own(self, node: TreeNode, namespace: str, key: str) -> int:
        """The charges of one namespace's workloads for a key."""
        stored = node.by_namespace.get(namespace, {}).get(key, 0)
        return stored + self._own.get((node.name, namespace), {}).get(key, 0)

    def spent(self, node: TreeNode, key: str, at_s: int) -> tuple[int, int]:
        """(spent, limit) of a budget at a second; nothing is spent before it was first metered."""
        return spent(self.tree.meters.get((node.name, key)), node.cash(key), at_s)

    def add(self, fact: Fact, time_us: int) -> None:
        """One more decision on top. Its number must be :attr:`number`."""
        self.facts.append((fact, time_us))
        if isinstance(fact, AdmissionDecided) and fact.verdict != "refused":
            if fact.left is not None and (owner := self.grant(fact.quota, fact.left.uid)):
                self._put(owner, without(owner, fact.left))
            before = self.grant(fact.quota, fact.uid)
            self._put(before, grown(before, fact, time_us))
        elif isinstance(fact, QuotaDeclared) and (fact.stage, fact.verdict) == (
            "asked",
            "admitted",
        ):
            self._declare(fact, time_us)

    def _put(self, before: Grant | None, after: Grant) -> None:
        quota, charge, held = after.quota, after.charge, before.charge if before else {}
        whole = self._held.setdefault(quota, {})
        own = self._own.setdefault((quota, after.namespace), {})
        for key in charge.keys() | held.keys() if held else charge:
            more = charge.get(key, 0) - held.get(key, 0)
            whole[key] = whole.get(key, 0) + more
            own[key] = own.get(key, 0) + more
        self._grants[(quota, after.uid)] = after

    def _declare(self, fact: QuotaDeclared, time_us: int) -> None:
        if fact.spec is None:
            return
        known = self.node(fact.quota)
        if known is None:
            known = TreeNode(fact.quota, fact.uid, fact.kind, fact.parent)
            adopt_children(known, {**self.tree.nodes, **self._nodes}.values())
        after = node = msgspec.structs.replace(known)
        after.ask(fact.uid, fact.spec, time_us)
        self._nodes[node.name] = after
        parent = self.node(fact.parent)
        if parent is not None:
            parent = msgspec.structs.replace(
                parent, children=dict(parent.children), claims=dict(parent.claims)
            )
            parent.claim(fact.quota, after.claimed())
            self._nodes[parent.name] = parent

    def store(self, sequences: Iterable[int]) -> None:
        """Apply the decisions to the tree: they were appended at these sequences."""
        for (fact, time_us), sequence in zip(self.facts, sequences, strict=True):
            self.tree.apply(fact, sequence, time_us)

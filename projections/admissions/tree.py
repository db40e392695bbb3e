"""One quota tree as its journal says: nodes, grants, meters, and what is used of each key.

``used = self_used + the children's limits``, per key, at every node. A decision reads a
:class:`Draft`: the tree with decisions on top that are not stored yet, so that many requests can
be decided one after the other and appended in one atomic batch, or thrown away together when
another process was faster. The same draft serves the webhook, the keeper and the model checker.

Source: ``koordinator.md`` section 1; ``house.md`` section 5.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.errors import HistoryDivergedError
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    Meter,
    QuotaDeclared,
    QuotaSpec,
    TreeMetered,
)

Fact = AdmissionDecided | AdmissionReleased | QuotaDeclared | TreeMetered


class Grant(msgspec.Struct, frozen=True):
    """What one quota holds for one object (uid)."""

    quota: str
    uid: str
    kind: str
    namespace: str
    name: str
    charge: dict[str, int]
    #: What it asked for last; less than the charge while a shrink waits to be seen.
    demand: dict[str, int]
    types: dict[str, str]
    #: Place in the journal, and time, of the last decision that raised the charge.
    number: int
    raised_us: int
    is_adopted: bool = False


class Node(msgspec.Struct):
    """One quota of the tree. ``asked`` is set while a change has been admitted and not been seen yet."""

    name: str
    uid: str
    kind: str
    parent: str
    observed: QuotaSpec | None = None
    asked: QuotaSpec | None = None
    asked_us: int = 0
    self_used: dict[str, int] = {}
    children: dict[str, dict[str, int]] = {}
    claims: dict[str, int] = {}
    grants: dict[str, Grant] = {}
    by_namespace: dict[str, dict[str, int]] = {}

    @property
    def spec(self) -> QuotaSpec:
        """The limits as last admitted; what is shown and compared."""
        return self.asked or self.observed or QuotaSpec()

    def limit(self, key: str) -> int | None:
        """What is below may use this much: the stricter of observed and asked limits; None = not limited."""
        if self.observed is None:
            return 0
        stands = self.observed.hard.get(key)
        if self.asked is None:
            return stands
        wanted = self.asked.hard.get(key)
        return (
            min(stands, wanted)
            if stands is not None and wanted is not None
            else (wanted if stands is None else stands)
        )

    def limited(self) -> dict[str, int]:
        """Every limited key and its limit."""
        if self.observed is None or self.asked is None:
            return dict(self.spec.hard) if self.observed else dict.fromkeys(self.spec.hard, 0)
        keys = self.observed.hard.keys() | self.asked.hard.keys()
        return {key: self.limit(key) or 0 for key in sorted(keys)}

    def claimed(self) -> dict[str, int]:
        """What it takes of its parent: the larger of observed and asked limits."""
        found = dict(self.observed.hard) if self.observed else {}
        for key, amount in (self.asked.hard if self.asked else {}).items():
            found[key] = max(found.get(key, 0), amount)
        return found

    def used(self, key: str) -> int:
        """What its workloads hold and its children claim."""
        return self.self_used.get(key, 0) + self.claims.get(key, 0)

    def claim(self, child: str, amounts: dict[str, int] | None) -> None:
        """Let a child claim these amounts from now on; None: it is gone."""
        for key, amount in self.children.pop(child, {}).items():
            self.claims[key] -= amount
        if amounts is not None:
            self.children[child] = amounts
            for key, amount in amounts.items():
                self.claims[key] = self.claims.get(key, 0) + amount


class Tree:
    """A tree after ``number`` entries of its journal, the last of them at ``sequence``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.sequence = 0
        self.nodes: dict[str, Node] = {}
        self.meters: dict[tuple[str, str], Meter] = {}
        self.total: dict[str, int] = {}

    def apply(self, fact: Fact, sequence: int, time_us: int) -> None:
        """Take in the next entry of the journal.

        Raises HistoryDivergedError when it is not the next one. Entries that are known already are ignored.
        """
        if fact.number <= self.number:
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

    def _decided(self, fact: AdmissionDecided, time_us: int) -> None:
        node = self.nodes.get(fact.quota)
        if fact.verdict == "refused" or node is None:
            return
        grant = grown(node.grants.get(fact.uid), fact, time_us)
        self._hold(node, grant)

    def _released(self, quota: str, uid: str, charge: dict[str, int]) -> None:
        node = self.nodes.get(quota)
        grant = node.grants.get(uid) if node else None
        if node is None or grant is None:
            return
        if charge:
            self._hold(node, msgspec.structs.replace(grant, charge=charge))
        else:
            _count(node, grant, -1)
            del node.grants[uid]

    def _hold(self, node: Node, grant: Grant) -> None:
        before = node.grants.get(grant.uid)
        if before is not None:
            _count(node, before, -1)
        node.grants[grant.uid] = grant
        _count(node, grant, 1)

    def _declared(self, fact: QuotaDeclared, time_us: int) -> None:
        if fact.verdict == "refused":
            return
        node = self.nodes.get(fact.quota)
        if fact.stage == "observed" and fact.spec is None:
            if node is not None:
                self.nodes.pop(fact.quota)
                self._claim(node, remove=True)
            return
        if node is None:
            node = Node(fact.quota, fact.uid, fact.kind, fact.parent)
            self.nodes[fact.quota] = node
            self._adopt_children(node)
        if fact.stage == "observed":
            node.uid, node.observed, node.asked = fact.uid, fact.spec, None
        else:
            node.asked, node.asked_us = fact.spec, time_us
        self._claim(node)

    def _adopt_children(self, node: Node) -> None:
        for child in self.nodes.values():
            if child.parent == node.name:
                node.claim(child.name, child.claimed())

    def _claim(self, node: Node, *, remove: bool = False) -> None:
        parent = self.nodes.get(node.parent)
        if parent is not None:
            parent.claim(node.name, None if remove else node.claimed())


def grown(before: Grant | None, fact: AdmissionDecided, time_us: int) -> Grant:
    """The grant after an admitted or adopted decision."""
    has_grown = before is None or any(
        amount > before.charge.get(key, 0) for key, amount in fact.charge.items()
    )
    return Grant(
        fact.quota, fact.uid, fact.kind, fact.namespace, fact.name, fact.charge, fact.demand,
        fact.types,
        fact.number if has_grown or before is None else before.number,
        time_us if has_grown or before is None else before.raised_us,
        fact.verdict == "adopted",
    )  # fmt: skip


def _count(node: Node, grant: Grant, sign: int) -> None:
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


class Draft:
    """A tree, and decisions about it that are not stored yet. Reading costs what the decisions touched."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.facts: list[tuple[Fact, int]] = []
        self._grants: dict[tuple[str, str], Grant] = {}
        self._held: dict[tuple[str, str], int] = {}
        self._own: dict[tuple[str, str, str], int] = {}
        self._nodes: dict[str, Node] = {}

    @property
    def number(self) -> int:
        """The number of the next entry."""
        return self.tree.number + len(self.facts) + 1

    def node(self, name: str) -> Node | None:
        """A quota by name."""
        return self._nodes.get(name) or self.tree.nodes.get(name)

    def grant(self, quota: str, uid: str) -> Grant | None:
        """What a quota holds for an object."""
        found = self._grants.get((quota, uid))
        if found is None and (node := self.tree.nodes.get(quota)) is not None:
            found = node.grants.get(uid)
        return found

    def used(self, node: Node, key: str) -> int:
        """What is used of a key, decisions of the draft included."""
        return node.used(key) + self._held.get((node.name, key), 0)

    def own(self, node: Node, namespace: str, key: str) -> int:
        """What the workloads of one namespace hold of a key."""
        stored = node.by_namespace.get(namespace, {}).get(key, 0)
        return stored + self._own.get((node.name, namespace, key), 0)

    def spent(self, node: Node, key: str, at_s: int) -> tuple[int, int]:
        """(spent, cash) of a budget at a second; spent 0 before it was first metered."""
        meter = self.tree.meters.get((node.name, key))
        cash = node.spec.cash.get(key, 0)
        if meter is None:
            return 0, cash
        return meter.spent + meter.rate * max(at_s - meter.at_s, 0), meter.hard or cash

    def add(self, fact: Fact, time_us: int) -> None:
        """One more decision on top. Its number must be :attr:`number`."""
        self.facts.append((fact, time_us))
        if isinstance(fact, AdmissionDecided) and fact.verdict != "refused":
            before = self.grant(fact.quota, fact.uid)
            after = grown(before, fact, time_us)
            held = before.charge if before else {}
            for key in after.charge.keys() | held.keys():
                more = after.charge.get(key, 0) - held.get(key, 0)
                place = (fact.quota, key)
                self._held[place] = self._held.get(place, 0) + more
                own = (fact.quota, fact.namespace, key)
                self._own[own] = self._own.get(own, 0) + more
            self._grants[(fact.quota, fact.uid)] = after
        elif isinstance(fact, QuotaDeclared) and fact.verdict != "refused":
            self._declare(fact, time_us)

    def _declare(self, fact: QuotaDeclared, time_us: int) -> None:
        node = self.node(fact.quota) or Node(fact.quota, fact.uid, fact.kind, fact.parent)
        after = msgspec.structs.replace(node, asked=fact.spec, asked_us=time_us)
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

"""Sums of the live pods below each controlling object, up the chains of owners. Pure but for its state.

Each object that controls others, or is controlled, is a node. A change goes up until a sum stays equal, at most
:data:`DEPTH` nodes. So its cost grows with the length of the chain, and it never walks over pods.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

import msgspec

from bus.clock import SECOND_US
from projections.quota_trees.keys import (
    Amounts,
    added,
    largest,
    less,
    missing,
    replaced,
    weighed,
)
from projections.quota_trees.shape import LANDED_US

NOTHING: Amounts = {}

#: Longest chain of controllers in use (docs/wrong-input.md).
DEPTH = 8


class Node(msgspec.Struct, gc=False, eq=False):
    """An object that controls others, or is controlled; its sums are never changed in place."""

    uid: str
    parent: str = ""
    #: Its last observed request, and the larger request admitted by reviews but not observed yet.
    ask: Amounts = NOTHING
    expected: Amounts = NOTHING
    #: The version before the expected change, and the end of the time in which it may land.
    version: str = ""
    until_us: int = 0
    #: Of the live pods below it, also their ending part (:func:`projections.quota_trees.keys.ending`). Of its children, the
    #: larger of the child's request and the pods below the child.
    pods: Amounts = NOTHING
    total: Amounts = NOTHING
    children: int = 0
    #: Earlier requests never observed below it: its controller may not have noticed yet that it requests less, or was
    #: deleted. The time until which each may land, the first to end first; and the largest of all.
    lacks: tuple[tuple[int, Amounts], ...] = ()
    awaited: Amounts = NOTHING

    @property
    def asked(self) -> Amounts:
        """Its own request, as reviews admitted it."""
        return largest(self.ask, self.expected)

    @property
    def below(self) -> Amounts:
        """The requests of its children, with pods that may still land."""
        return added(self.total, self.awaited) if self.awaited else self.total

    @property
    def weight(self) -> Amounts:
        """Its part in its parent's sum."""
        return weighed(self.asked, self.below)

    def wait(self, lacks: Iterable[tuple[int, Amounts]]) -> None:
        """From now on these amounts may land below the object, each until its time, although the object does not ask for them."""
        self.lacks = tuple(one for one in lacks if one[1])
        self.awaited = largest(*(amounts for _, amounts in self.lacks))


class Chains:
    """The nodes of one cluster. ``mark(uid)`` is called for every object with changed sums."""

    def __init__(self, parent_of: Callable[[str], str], mark: Callable[[str], None]) -> None:
        """``parent_of(uid)`` is the uid of the object that covers ``uid``; "" for none."""
        self._parent_of = parent_of
        self._mark = mark
        self._nodes: dict[str, Node] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._nodes

    def get(self, uid: str) -> Node | None:
        """The node of an object; None if it counts nothing."""
        return self._nodes.get(uid)

    def waits(self, uid: str) -> bool:
        """Whether more may still land below an object than it requests."""
        node = self._nodes.get(uid)
        return node is not None and bool(node.awaited)

    def all(self) -> list[Node]:
        """Every node."""
        return [*self._nodes.values()]

    def restore(self, nodes: Iterable[Node]) -> None:
        """Load these nodes, with their sums."""
        self._nodes = {node.uid: node for node in nodes}

    def opened(self, uid: str) -> Node:
        """The node of an object, a new one below its owner where there was none."""
        node = self._nodes.get(uid)
        if node is None:
            node = self._nodes[uid] = Node(uid)
            self.relink(node)
        return node

    def keep(self, node: Node) -> None:
        """Store a node that may have been dropped when it counted nothing."""
        self._nodes.setdefault(node.uid, node)

    def relink(self, node: Node, default: str = "") -> None:
        """Look up the parent of an object again; ``default`` if none is known."""
        self.link(node, self._parent_of(node.uid) or default)

    def link(self, node: Node, parent: str) -> None:
        """Count a node for this parent from now on, unless this would make a circle or too long a chain."""
        if node.parent == parent or self._is_above(node.uid, parent):
            return
        weight, pods = node.weight, node.pods
        before, node.parent = node.parent, parent
        if before:
            self.add(before, weight, NOTHING, pods, NOTHING, -1)
        if parent:
            self.opened(parent)
            self.add(parent, NOTHING, weight, NOTHING, pods, 1)

    def _is_above(self, uid: str, parent: str) -> bool:
        """Whether ``uid`` stands above ``parent``, or the chain would be too long: references may be made up."""
        for _ in range(DEPTH):
            if parent == uid:
                return True
            node = self._nodes.get(parent)
            if node is None or not node.parent:
                return parent == uid
            parent = node.parent
        return True

    def say(self, node: Node, ask: Amounts, expected: Amounts) -> None:
        """An object asks for ``ask`` from now on, and reviews let it ask for ``expected``."""
        before = node.weight
        node.ask, node.expected = ask, expected
        if not expected:
            node.version, node.until_us = "", 0
        self._weighs(node, before)

    def wait(self, node: Node, lacks: Iterable[tuple[int, Amounts]]) -> None:
        """Count this much below an object until then, for any request of its own."""
        before = node.weight
        node.wait(lacks)
        self._mark(node.uid)
        self._weighs(node, before)

    def _weighs(self, node: Node, before: Amounts) -> None:
        if node.parent and before != node.weight:
            self.add(node.parent, before, node.weight, NOTHING, NOTHING, 0)
        self._tidy(node)

    def add(
        self, uid: str, before: Amounts, after: Amounts, pods: Amounts, live: Amounts, count: int
    ) -> None:
        """A child of ``uid`` counts ``after`` in place of ``before``, and ``live`` of pods in place of ``pods``."""
        node = self._nodes[uid]
        node.children += count
        came = after if count > 0 else NOTHING
        for _ in range(DEPTH):
            weight = node.weight
            if came and node.awaited:
                node.wait([(until_us, less(one, came)) for until_us, one in node.lacks])
            came = NOTHING
            node.total = replaced(node.total, before, after)
            node.pods = replaced(node.pods, pods, live)
            self._mark(node.uid)
            before, after = weight, node.weight
            if not node.parent or (before == after and pods == live):
                break
            node = self._nodes[node.parent]
        self._tidy(self._nodes[uid])

    def _tidy(self, node: Node) -> None:
        """Drop an object that counts nothing."""
        if node.children or node.ask or node.expected or node.awaited:
            return
        del self._nodes[node.uid]
        if node.parent:
            self.add(node.parent, NOTHING, NOTHING, NOTHING, NOTHING, -1)


class Awaited:
    """Pods that may still land below objects because of an earlier request.

    A controller makes pods by its object's old request until it notices that the object requests less, or
    was deleted. A webhook process without this news admits these pods as covered. So the amounts that
    were not observed below the object stay charged. Pods that come meanwhile are subtracted. A complete
    list of pods, requested after the API server's deadline, ends it.
    """

    def __init__(self, chains: Chains) -> None:
        """The amounts stand in the nodes of ``chains``, and a snapshot holds them there."""
        self._chains = chains
        #: (until, uid), the first first; also of some that changed since.
        self._until: list[tuple[int, str]] = []

    def restore(self, nodes: Iterable[Node]) -> None:
        """Go on with these nodes."""
        self._until = sorted((until_us, one.uid) for one in nodes for until_us, _ in one.lacks)

    def rest(self, uid: str, asked: Amounts, time_us: int) -> None:
        """An object asks for less than ``asked`` since ``time_us``, or is gone."""
        known = self._chains.get(uid)
        rest = missing(asked, known.total if known is not None else NOTHING)
        if not rest:
            return
        node = self._chains.opened(uid)
        # By the second: repeated changes of an object must not make an endless list.
        until_us = -(-(time_us + LANDED_US) // SECOND_US) * SECOND_US
        lacks = dict(node.lacks)
        if until_us not in lacks:
            heapq.heappush(self._until, (until_us, uid))
        lacks[until_us] = largest(lacks.get(until_us, NOTHING), rest)
        self._chains.wait(node, sorted(lacks.items()))

    def due(self, now_us: int, after_us: int = -1) -> bool:
        """Whether a complete list of pods, requested now, would end a wait, and would not have ended it at ``after_us``."""
        return any(
            after_us < until_us <= now_us and self._chains.waits(uid)
            for until_us, uid in self._until
        )

    def listed(self, asked_us: int) -> None:
        """Fold a complete list with all its parts: pods that could land before its request will not come any more."""
        while self._until and self._until[0][0] <= asked_us:
            uid = heapq.heappop(self._until)[1]
            node = self._chains.get(uid)
            if node is not None:
                self._chains.wait(node, [one for one in node.lacks if one[0] > asked_us])

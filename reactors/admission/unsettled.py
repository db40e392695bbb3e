"""Charges and changes of quotas that were not seen to land yet: a complete list settles them. Pure but for its state.

Source: docs/architecture.md; :mod:`reactors.admission.reconcile` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed
from projections.cluster import covers
from projections.quota_trees import Node, Tree
from projections.quota_trees.shape import Grant
from reactors.admission.reconcile import Seen, shows
from reactors.engine.journals import Journals


class Unsettled:
    """What is not settled in ``journals``."""

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        #: By tree: see :meth:`confirmed`.
        self._confirmed: dict[str, dict[tuple[str, str], int]] = {}
        #: Objects with a charge that was not seen to land.
        self._pending: set[str] = set()

    def confirmed(self, tree: Tree) -> dict[tuple[str, str], int]:
        """By quota and object: the number of the newest entry of a tree that was seen to have landed."""
        return self._confirmed.setdefault(tree.name, {})

    def confirm(self, tree: Tree, seen: Seen) -> None:
        """An object was seen: its charges that this shows have landed."""
        for quota in tree.holders.get(seen.uid, ()):
            grant = tree.nodes[quota].grants[seen.uid]
            if shows(grant, seen):
                self.confirmed(tree)[(quota, seen.uid)] = grant.number

    def released(self, tree: Tree, uid: str) -> None:
        """Forget an object that a tree charges no more."""
        if uid not in tree.holders:
            for quota in tree.nodes:
                self.confirmed(tree).pop((quota, uid), None)

    def watch(self, uid: str) -> None:
        """Have a complete list asked for while something of this object is not settled."""
        self._pending.discard(uid)
        for tree, grant in self._grants(uid):
            if self.confirmed(tree).get((grant.quota, uid), 0) < grant.number:
                self._pending.add(uid)

    def covered(self, fact: ObjectsListed | PodsListed) -> list[str]:
        """The objects that are not settled and of whose uids a complete list speaks."""
        return [uid for uid in self._pending if covers(fact, uid)]

    def kind(self, uid: str) -> str:
        """The kind that an object is charged as; "" where it is not charged."""
        return next((grant.kind for _, grant in self._grants(uid)), "")

    def due(self, late_us: int) -> set[str]:
        """The kinds of objects and quotas that were asked for until ``late_us`` and are not settled."""
        kinds = {one.kind for one in self.quotas() if one.asked and one.asked_us <= late_us}
        for uid in self._pending:
            kinds.update(grant.kind for _, grant in self._grants(uid) if grant.asked_us <= late_us)
        return kinds

    def quotas(self) -> list[Node]:
        """Every quota of every tree."""
        return [node for tree in self._journals.trees.values() for node in tree.nodes.values()]

    def _grants(self, uid: str) -> Iterator[tuple[Tree, Grant]]:
        for name in self._journals.holders.get(uid, ()):
            tree = self._journals.tree(name)
            for quota in tree.holders[uid]:
                yield tree, tree.nodes[quota].grants[uid]

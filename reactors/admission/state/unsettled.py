"""Charges and changes of quotas that are not observed to land yet: a complete list settles them. Pure but for its state.

Source: docs/architecture.md; :mod:`reactors.admission.deciding.reconcile` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from bus.clock import SECOND_US
from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed
from projections.cluster import covers
from projections.quota_trees import Tree, TreeNode
from projections.quota_trees.shape import Grant
from reactors.admission.deciding.reconcile import LastSeen, shows
from reactors.engine.journals import Journals

#: Between two useless lists of a kind: at first, and at most.
SHORTEST_US = 5 * SECOND_US
LONGEST_US = 60 * SECOND_US


class Rests:
    """The pause of a kind after a list that settled nothing: twice as long after each. Newly due objects are listed at once."""

    def __init__(self) -> None:
        #: By kind: the end of its pause, and its length.
        self._rests: dict[str, tuple[int, int]] = {}

    def over(self, due: Set[str], fresh: Set[str], now_us: int) -> list[str]:
        """The kinds of ``due`` to list now; ``fresh`` are those with objects that just became due."""
        self._rests = {kind: rest for kind, rest in self._rests.items() if kind in due}
        asked = []
        for kind in sorted(due):
            until_us, rest_us = self._rests.get(kind, (0, 0))
            if kind in fresh:
                rest_us = 0
            elif until_us - rest_us <= now_us < until_us:  # else the clock was set back
                continue
            rest_us = min(max(2 * rest_us, SHORTEST_US), LONGEST_US)
            self._rests[kind] = (now_us + rest_us, rest_us)
            asked.append(kind)
        return asked


class Unsettled:
    """The unsettled objects in ``journals``."""

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        #: By tree: see :meth:`confirmed`.
        self._confirmed: dict[str, dict[tuple[str, str], int]] = {}
        #: Objects with a charge that is not observed to land.
        self._pending: set[str] = set()

    def confirmed(self, tree: Tree) -> dict[tuple[str, str], int]:
        """By quota and object: the number of a tree's newest entry that is observed to have landed."""
        return self._confirmed.setdefault(tree.name, {})

    def confirm(self, tree: Tree, seen: LastSeen) -> None:
        """Fold an observed object: the charges shown by it have landed."""
        for quota in tree.holders.get(seen.uid, ()):
            grant = tree.nodes[quota].grants[seen.uid]
            if shows(grant, seen):
                self.confirmed(tree)[(quota, seen.uid)] = grant.number

    def released(self, tree: Tree, uid: str) -> None:
        """Forget an object without a charge in a tree."""
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
        """The unsettled objects in the uid range of a complete list."""
        return [uid for uid in self._pending if covers(fact, uid)]

    def kind(self, uid: str) -> str:
        """The charged kind of an object; "" without a charge."""
        return next((grant.kind for _, grant in self._grants(uid)), "")

    def due(self, late_us: int, after_us: int = -1) -> set[str]:
        """The kinds of unsettled objects and quotas requested after ``after_us`` until ``late_us``."""
        quotas = (one for one in self.quotas() if one.asked)
        kinds = {one.kind for one in quotas if after_us < one.asked_us <= late_us}
        for uid in self._pending:
            kinds.update(
                grant.kind for _, grant in self._grants(uid) if after_us < grant.asked_us <= late_us
            )
        return kinds

    def quotas(self) -> list[TreeNode]:
        """Every quota of every tree."""
        return [node for tree in self._journals.trees.values() for node in tree.nodes.values()]

    def _grants(self, uid: str) -> Iterator[tuple[Tree, Grant]]:
        for name in self._journals.holders.get(uid, ()):
            tree = self._journals.tree(name)
            for quota in tree.holders[uid]:
                yield tree, tree.nodes[quota].grants[uid]

"""All quota trees of one cluster, from their journals. Pure but for its state.

Source: docs/architecture.md (admission).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from bus.envelope import Event
from bus.errors import HistoryDivergedError
from bus.events.admissions import (
    JOURNAL,
    AdmissionDecided,
    AdmissionReleased,
    AdmissionsGrouped,
    QuotaDeclared,
)
from bus.events.clock import ClockTicked
from bus.events.vocabulary import Fact
from projections.engine.parts import Part
from projections.quota_trees.shape import Grant, TreeNode
from projections.quota_trees.tree import Fact as Entry
from projections.quota_trees.tree import SavedTree, Tree, restored


class SavedForest(msgspec.Struct):
    """The part of a snapshot for quota trees."""

    trees: dict[str, SavedTree]
    places: dict[tuple[str, str], str]


class Forest(Part):
    """Every tree of a cluster, as far as it was read, and the tree of each quota and each object."""

    Saved: ClassVar[type[msgspec.Struct]] = SavedForest
    derived: ClassVar[frozenset[str]] = frozenset({"holders"})

    def __init__(self) -> None:
        self.trees: dict[str, Tree] = {}
        #: (kind, name) of every quota to its tree's name.
        self.places: dict[tuple[str, str], str] = {}
        #: Object (uid) to the trees with a charge for it.
        self.holders: dict[str, set[str]] = {}

    def restore(self, saved: SavedForest) -> None:
        """Load the saved state, in a new object. The objects with charges are computed from the trees."""
        super().restore(saved)
        self.trees.update({name: restored(tree) for name, tree in saved.trees.items()})
        for tree in self.trees.values():
            for uid in tree.holders:
                self.holders.setdefault(uid, set()).add(tree.name)

    def tree(self, name: str) -> Tree:
        """A tree by name; an empty one where nothing was said of it."""
        found = self.trees.get(name)
        if found is None:
            found = self.trees[name] = Tree(name)
        return found

    def grants(self, uid: str) -> Iterator[tuple[TreeNode, Grant]]:
        """The charges for an object, in every quota with one."""
        for name in self.holders.get(uid, ()):
            tree = self.trees[name]
            for quota in sorted(tree.holders.get(uid, ())):
                node = tree.nodes[quota]
                yield node, node.grants[uid]

    def charges_in(self, namespace: str) -> bool:
        """Whether anything is held for an object of a namespace. Costs a look at each grant."""
        return any(
            grant.namespace == namespace
            for tree in self.trees.values()
            for node in tree.nodes.values()
            for grant in node.grants.values()
        )

    def enter(self, tree: Tree, fact: Entry, sequence: int, time_us: int) -> None:
        """Take in the next entry of a tree's journal. Raises HistoryDivergedError where it is not the next one."""
        tree.apply(fact, sequence, time_us)
        if isinstance(fact, AdmissionDecided):
            self._hold(tree, fact.uid)
        elif isinstance(fact, AdmissionReleased):
            for release in fact.releases:
                self._hold(tree, release.uid)
        elif isinstance(fact, QuotaDeclared) and fact.verdict != "refused":
            place = (fact.kind, fact.quota)
            if fact.quota in tree.nodes:
                self.places[place] = tree.name
            elif self.places.get(place) == tree.name:
                del self.places[place]

    def _hold(self, tree: Tree, uid: str) -> None:
        if uid in tree.holders:
            self.holders.setdefault(uid, set()).add(tree.name)
        elif uid in self.holders:
            self.holders[uid].discard(tree.name)
            if not self.holders[uid]:
                del self.holders[uid]


class QuotaTrees(Forest):
    """The trees of one cluster, folded event by event."""

    #: The entries of journals, as facts.
    entries: ClassVar[tuple[type[Fact], ...]] = (AdmissionsGrouped, *JOURNAL)
    #: The facts with an effect on them.
    reads: ClassVar[tuple[type[Fact], ...]] = (*entries, ClockTicked)

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event. Out-of-order entries are skipped, and those after them in their group, as in every reader."""
        if isinstance(fact, ClockTicked):
            for tree in self.trees.values():
                tree.refused.elapse(event.time_us)
            return
        entries = fact.decisions if isinstance(fact, AdmissionsGrouped) else (fact,)
        tree = self.tree(event.key)
        try:
            for entry in entries:
                if isinstance(entry, JOURNAL):
                    self.enter(tree, entry, event.sequence, event.time_us)
        except HistoryDivergedError:
            pass
        tree.skip(event.sequence)

"""The decision on a question about one tree: made with other waiting ones, appended to the tree's journal, then answered.

A dry run is decided and not appended.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

from collections.abc import Callable

from bus.clock import Clock
from projections.quota_trees import Tree, TreeOverlay
from reactors.admission.deciding.batching import A, DecisionBatcher
from reactors.admission.deciding.decide import barred
from reactors.admission.deciding.mapping import QuotaRef
from reactors.engine.journals import Journals
from reactors.webhook.review import Review

#: The journal of refusals without an existing quota. It never has a quota.
UNKNOWN = "unknown"


class TreeDecisions:
    """The decisions of one process: each tree has a batcher of its own, made when something is decided there."""

    def __init__(self, journals: Journals, clock: Clock) -> None:
        self._journals = journals
        self._clock = clock
        self._batchers: dict[str, DecisionBatcher] = {}

    def tree(self, name: str) -> Tree:
        """A tree to read; a missing one is not created."""
        return self._journals.trees.get(name) or Tree(name)

    def tree_of(self, where: QuotaRef) -> Tree:
        """The tree of a quota, to read."""
        return self.tree(self._journals.places.get((where.kind, where.quota), UNKNOWN))

    def is_closed(self, where: QuotaRef, namespace: str) -> bool:
        """Whether the quota takes no workload of the namespace, even with room."""
        node = self.tree_of(where).nodes.get(where.quota)
        if where.refusal or node is None or node.observed is None:
            return True
        return bool(barred(node, namespace))

    async def decide(
        self, tree: str, question: Callable[[TreeOverlay, int], A], review: Review
    ) -> A:
        """The decision of ``question`` on top of a tree, once it is stored; of a dry run at once."""
        if review.dry_run or tree not in self._journals.trees:
            decision = question(TreeOverlay(self.tree(tree)), self._clock.now_us())
            if review.dry_run:
                return decision
            if decision.verdict == "refused":
                # No journal for a name known only from the request.
                tree = UNKNOWN
        batcher = self._batchers.get(tree)
        if batcher is None:
            batcher = self._batchers[tree] = DecisionBatcher(self._journals, self._clock, tree)
        return await batcher.ask(question, review.uid)

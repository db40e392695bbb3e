"""ADAPTER: first charges of objects, those of one tree in one entry of its journal: one flush, and one event for all readers.

Pods that a scheduler may bind once they are charged come by the hundred in a second (tests/benchmarks, `schedulers --quota`).

Source: docs/architecture.md; :mod:`reactors.admission.deciding.reconcile` has the rules.
"""

from __future__ import annotations

import asyncio

import msgspec

from bus.clock import Clock
from bus.errors import WrongExpectationError
from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.reconcile import settle
from reactors.admission.deciding.storable import is_too_large
from reactors.admission.state.evidence import evidence, seen_in
from reactors.admission.state.raises import Raises
from reactors.admission.state.state import AdmissionState
from reactors.admission.state.unsettled import Unsettled
from reactors.engine.journals import Journals


class _Draft(msgspec.Struct):
    """Charges of objects of one tree, decided at one moment."""

    overlay: TreeOverlay
    at_us: int
    uids: list[str] = []


class FirstCharges:
    """First charges that are decided and not stored yet. Between the first one and :meth:`store` no other task may run."""

    def __init__(
        self,
        journals: Journals,
        view: AdmissionState,
        clock: Clock,
        unsettled: Unsettled,
        raises: Raises,
    ) -> None:
        self._journals, self._view, self._clock = journals, view, clock
        self._unsettled, self._raises = unsettled, raises
        #: By tree.
        self._drafts: dict[str, _Draft] = {}

    def takes(self, uid: str) -> bool:
        """Whether a changed object is one of them: charged nowhere yet, with a quota, and answering for itself.

        Its mark is taken away then.
        """
        if self._journals.holders.get(uid):
            return False
        where, seen = evidence(self._view, uid) or (None, None)
        if where is None or seen is None or seen.is_gone:
            return False
        name = self._journals.places.get((where.kind, where.quota))
        if name is None or self._raises.is_raised(uid, seen.live):
            return False
        found = self._drafts.get(name) or self._draft(name)
        overlay, read = found.overlay, self._journals.sequence
        confirmed = self._unsettled.confirmed(overlay.tree)
        facts = settle(overlay, seen_in(overlay.tree, seen, where), confirmed, read)
        if any(map(is_too_large, facts)):
            return False
        for fact in facts:
            overlay.add(fact, found.at_us)
        if facts:
            self._drafts[name] = found
            found.uids.append(uid)
            self._view.changed.discard(uid)
        return bool(facts)

    def _draft(self, name: str) -> _Draft:
        return _Draft(TreeOverlay(self._journals.tree(name)), self._clock.now_us())

    async def store(self) -> None:
        """Store them, those of each tree by themselves. Failed ones are marked again, and the first error is raised."""
        if not self._drafts:
            return
        found = [*self._drafts.values()]
        self._drafts.clear()
        appended = (append(self._journals, one.overlay) for one in found)
        try:
            ended = await asyncio.gather(*appended, return_exceptions=True)
        except asyncio.CancelledError:
            self._view.changed.update(uid for one in found for uid in one.uids)
            raise
        for one, error in zip(found, ended, strict=True):
            if error is not None:
                self._view.changed.update(one.uids)
                continue
            for uid in one.uids:
                self._unsettled.watch(uid)
        if errors := [error for error in ended if error is not None]:
            raise errors[0]


async def append(journals: Journals, draft: TreeOverlay) -> None:
    """Append the reconciler's decisions. After a faster writer it reads their entries and raises WrongExpectationError."""
    tree, known = draft.tree, draft.known
    ids = [f"keeper/{tree.name}/{fact.number}/{known}" for fact, _ in draft.facts]
    try:
        await journals.append(draft, ids)
    except WrongExpectationError as refused:
        await journals.newer(tree, known, refused)
        raise

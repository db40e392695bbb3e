"""ADAPTER: keeps the journals true to the cluster: declares, adopts, releases.

Any process may run it; one is enough. Its entries depend on the expected last sequence as
every decision does, so two reconcilers, or one that was paused, do no harm. It works off the changes
since its last pass, and starts with everything, so it needs no memory of its own.

Source: docs/architecture.md; :mod:`reactors.admission.deciding.reconcile` has the rules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from bus.clock import Clock
from bus.envelope import Event
from bus.errors import DemandError, RetryableError, WrongExpectationError
from bus.events.admissions import AdmissionDecided, AdmissionReleased
from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed
from projections.cluster import POD, covers
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.keys import summed
from projections.quota_trees.shape import ELASTIC, LANDED_US
from projections.quota_trees.tree import Fact
from reactors.admission.deciding.capacity import capacity, sized
from reactors.admission.deciding.decide import UNANSWERED
from reactors.admission.deciding.declare import MAX_LEVELS
from reactors.admission.deciding.reconcile import Absent, LastSeen, SeenQuota, declared, settle
from reactors.admission.deciding.storable import storable
from reactors.admission.reconciling.first_charges import FirstCharges, append
from reactors.admission.state.evidence import evidence, seen_in
from reactors.admission.state.raises import Raises
from reactors.admission.state.state import AdmissionState
from reactors.admission.state.unsettled import Unsettled
from reactors.engine.journals import Journals

#: Objects between two stores of first charges: decisions of other processes on a tree undo them meanwhile.
STORED_EVERY = 50
#: Objects between two pauses for other tasks of this process; everything is stored before a pause.
YIELD_EVERY = 4 * STORED_EVERY

_log = logging.getLogger(__name__)

_Mark = TypeVar("_Mark")


def _requests(demand: dict[str, int]) -> dict[str, int]:
    return {key: amount for key, amount in demand.items() if key.startswith("requests.")}


@contextmanager
def _taken(marks: set[_Mark], mark: _Mark) -> Iterator[None]:
    """Without ``mark`` while the body runs; with it again after an error."""
    marks.discard(mark)
    try:
        yield
    except BaseException:
        marks.add(mark)
        raise


def _tree_of(quotas: Mapping[tuple[str, str], SeenQuota], seen: SeenQuota) -> str | None:
    """The name of a quota's tree; None while its chain to the root was not seen."""
    if seen.kind == ELASTIC:
        return f"elastic/{seen.tree}"
    for _ in range(MAX_LEVELS):
        if not seen.parent:
            return f"biz/{seen.name}"
        above = quotas.get((seen.kind, seen.parent))
        if above is None or above.spec is None:
            return None
        seen = above
    return None


class Reconciler:
    """Follows ``journals`` and ``view``, both with the same history."""

    def __init__(
        self,
        journals: Journals,
        view: AdmissionState,
        clock: Clock,
        raises: Raises | None = None,
    ) -> None:
        """``raises``: the known raised charges."""
        self._journals = journals
        self._view = view
        self._clock = clock
        self._unsettled = Unsettled(journals)
        self._absent: dict[str, int] = {}
        #: Children that raised their holder's charge, until they are observed or can no longer land.
        self._raises = raises if raises is not None else Raises()
        self._first = FirstCharges(journals, view, clock, self._unsettled, self._raises)
        #: By holder: objects that keep their own charge until the holder's is raised for them.
        self._behind: dict[str, set[str]] = {}
        journals.listen(self.apply)

    def apply(self, event: Event) -> None:
        """See one event of the history."""
        if event.defect or event.cluster != self._view.cluster:
            return
        if event.type == ObjectsListed.wire_type:
            listed = ObjectsListed.read(event)
            self._listed(listed.kind, listed, event.time_us)
        elif event.type == PodsListed.wire_type:
            self._listed(POD, PodsListed.read(event), event.time_us)
        elif event.type == AdmissionDecided.wire_type:
            decided = AdmissionDecided.read(event)
            self._raises.decided(decided, event.time_us)
            self._view.changed.add(decided.uid)
        elif (holder := self._raises.seen(event, self._view.coverage.is_placed)) is not None:
            self._view.changed.add(holder)
        elif event.type == AdmissionReleased.wire_type:
            # Withdrawn by the process of the request: if the object exists all the same it is charged again.
            releases = AdmissionReleased.read(event).releases
            self._view.changed.update(one.uid for one in releases if one.reason == UNANSWERED)

    async def run(self) -> None:
        """Keep for ever, from the moment the history was read to its present end."""
        self._view.changed.update(self._view.objects, self._journals.holders)
        self._view.changed_quotas.update(self._view.quotas)
        while True:
            sequence = self._journals.sequence
            try:
                await self.work()
            except WrongExpectationError:
                # Another process decided meanwhile; the rest is still marked.
                continue
            except RetryableError as error:
                _log.warning("the journals cannot be kept now: %s", error)
            if self._journals.sequence == sequence:
                await self._journals.moved()

    async def work(self) -> None:
        """Work off the marks. A failed one is marked again.

        A mark is removed before its work: an observation during an append marks again.
        """
        self._view.coverage.expire(self._clock.now_us())
        for name in sorted(self._view.changed_quotas):
            with _taken(self._view.changed_quotas, name):
                if not await self._quota(name):
                    self._view.changed_quotas.add(name)
        await self._size()
        # These are few, and would wait behind all other changes.
        for uid in sorted(self._absent):
            listed_us, read = self._absent[uid], self._journals.sequence
            live = self._view.coverage.lives.node(uid).below
            absent = Absent(uid, listed_us, live, self._raises.is_raised(uid, live))
            for tree in sorted(self._journals.holders.get(uid, ())):
                await self._settle(self._journals.tree(tree), absent, read)
            if self._absent[uid] == listed_us:
                del self._absent[uid]
        await self._objects()

    async def _objects(self) -> None:
        """Work off the changed objects. Consecutive first charges of a tree are stored together."""
        for count, uid in enumerate(sorted(self._view.changed), 1):
            if uid in self._behind or not self._first.takes(uid):
                await self._first.store()
                with _taken(self._view.changed, uid):
                    await self._kept(uid)
            if not count % STORED_EVERY:
                await self._first.store()
            if not count % YIELD_EVERY:
                await asyncio.sleep(0)
        await self._first.store()

    async def _quota(self, name: tuple[str, str]) -> bool:
        """Whether this quota is settled; False while its chain to the root was not seen."""
        seen, read = self._view.quotas[name], self._journals.sequence
        stands = self._journals.places.get(name)
        belongs = stands if seen.spec is None else _tree_of(self._view.quotas, seen)
        if belongs is None:
            return seen.spec is None
        if stands is not None and stands != belongs:
            old = self._journals.tree(stands).nodes[seen.name]
            gone = SeenQuota(old.name, old.uid, old.kind, old.parent, None, seen.seen_us, seen.tree)
            await self._declare(self._journals.tree(stands), gone, read)
        await self._declare(self._journals.tree(belongs), seen, read)
        return True

    async def _declare(self, tree: Tree, seen: SeenQuota, read: int) -> None:
        draft = TreeOverlay(tree)
        fact = declared(draft, seen, read)
        if fact is None:
            return
        self._view.has_new_capacity |= seen.kind == ELASTIC or bool(seen.spec and seen.spec.max)
        is_new = seen.name not in tree.nodes or tree.nodes[seen.name].observed is None
        await self._store(draft, [fact])
        if is_new:
            # Objects with this quota, or in its namespaces, could not be charged until now.
            self._view.changed.update(self._view.objects)

    async def _size(self) -> None:
        """Write the capacity of all nodes to the elastic trees, if it changed."""
        if not self._view.has_new_capacity:
            return
        self._view.has_new_capacity = False
        total, read = capacity(self._view.state), self._journals.sequence
        for tree in list(self._journals.trees.values()):
            if any(node.is_elastic for node in tree.nodes.values()):
                try:
                    await self.say(tree, lambda draft: sized(draft, total, read))
                except RetryableError:
                    self._view.has_new_capacity = True
                    raise

    @property
    def trees(self) -> Mapping[str, Tree]:
        """Every quota tree by name, as far as its journal was read."""
        return self._journals.trees

    @property
    def quotas(self) -> Mapping[tuple[str, str], SeenQuota]:
        """Quotas by kind and name as their objects were seen last."""
        return self._view.quotas

    async def say(self, tree: Tree, make: Callable[[TreeOverlay], Fact | None]) -> None:
        """Append the entry of ``make`` on top of the current tree, if it makes one."""
        while True:
            draft = TreeOverlay(tree)
            fact = make(draft)
            try:
                return await self._store(draft, [fact] if fact is not None else [])
            except WrongExpectationError:
                continue

    async def _kept(self, uid: str) -> None:
        """Settle one object. It alone stays uncharged if its request fits into no entry."""
        try:
            await self._object(uid)
        except DemandError as error:
            found = self._view.objects.get(uid)
            what = f"{found.kind} {found.namespace}/{found.name}" if found is not None else uid
            _log.error("%s is not charged until it changes: %s", what, error)

    async def _object(self, uid: str) -> None:
        found, read = evidence(self._view, uid), self._journals.sequence
        if found is None:
            self._unsettled.watch(uid)
            return
        where, seen = found
        if seen.holder:
            # Charged at its owner before it is given back.
            await self._object(seen.holder)
            if self._is_short(seen.holder):
                self._behind.setdefault(seen.holder, set()).add(uid)
                return
        if seen.kind == POD:
            seen = self._as_asked(seen)
        if self._raises.is_raised(uid, seen.live):
            seen = msgspec.structs.replace(seen, is_raised=True)
        trees = set(self._journals.holders.get(uid, ()))
        own = self._journals.places.get((where.kind, where.quota)) if where else None
        # Charged where it belongs before it is given back where it was.
        for name in sorted(trees | ({own} if own else set()), key=lambda name: name != own):
            tree = self._journals.tree(name)
            await self._settle(tree, seen_in(tree, seen, where), read)
        self._unsettled.watch(uid)
        if uid in self._behind and not self._is_short(uid):
            for child in sorted(self._behind.pop(uid)):
                await self._object(child)

    def _is_short(self, holder: str) -> bool:
        """Whether the pods below a holder exceed its charge, and its raise waits for objects that may still land."""
        place, seen = evidence(self._view, holder) or (None, None)
        if place is None or seen is None or not self._raises.is_raised(holder, seen.live):
            return False
        tree = self._journals.trees.get(self._journals.places.get((place.kind, place.quota), ""))
        node = tree.nodes.get(place.quota) if tree is not None else None
        grant = node.grants.get(holder) if node is not None else None
        charge = grant.charge if grant is not None else {}
        live = summed(seen.live, seen.types)
        return node is not None and any(n > charge.get(key, 0) for key, n in live.items())

    def _as_asked(self, seen: LastSeen) -> LastSeen:
        """A pod's facts lack its limits. If its requests equal the granted ones, so do its limits."""
        for name in self._journals.holders.get(seen.uid, ()):
            tree = self._journals.tree(name)
            for quota in tree.holders[seen.uid]:
                asked = tree.nodes[quota].grants[seen.uid].demand
                if seen.demand and _requests(asked) == _requests(seen.demand):
                    return msgspec.structs.replace(seen, demand=asked)
        return seen

    async def _settle(self, tree: Tree, found: LastSeen | Absent, read: int) -> None:
        draft = TreeOverlay(tree)
        if isinstance(found, LastSeen):
            self._unsettled.confirm(tree, found)
        await self._store(draft, settle(draft, found, self._unsettled.confirmed(tree), read))
        self._unsettled.released(tree, found.uid)

    async def _store(self, draft: TreeOverlay, facts: Sequence[Fact]) -> None:
        if not facts:
            return
        now_us = self._clock.now_us()
        for fact in facts:
            draft.add(storable(fact), now_us)
        await append(self._journals, draft)

    def _listed(self, kind: str, fact: ObjectsListed | PodsListed, listed_us: int) -> None:
        """Fold a complete list, after the view: its evidence about charges that may lapse."""
        present = set(fact.uids)
        for node in self._unsettled.quotas():
            is_there = node.uid in present
            if node.kind == kind and covers(fact, node.uid) and (node.asked or not is_there):
                self._view.quota_listed(node, listed_us, is_there=is_there)
        self._view.changed.update(self._raises.listed(kind, fact, listed_us))
        for uid in self._unsettled.covered(fact):
            if uid in present:
                self._view.changed.add(uid)
            elif uid not in self._view.objects and self._unsettled.kind(uid) == kind:
                self._absent[uid] = listed_us

    def due(self, now_us: int, after_us: int = 0) -> set[str]:
        """The kinds whose complete list, requested now, would settle something, and would not have at ``after_us``."""
        late_us, known_us = now_us - LANDED_US, after_us - LANDED_US
        found = self._unsettled.due(late_us, known_us) | self._raises.due(late_us, known_us)
        return found | {POD} if self._view.coverage.lives.awaited.due(now_us, after_us) else found

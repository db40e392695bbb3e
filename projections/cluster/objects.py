"""The state of objects by uid: the newest observation, deletions and complete lists. Pure but for its state.

The same facts give the same state whatever their order, and however often they come:

- *Order* of two observations of one uid: by resourceVersion where both are decimal, else by the time of the observation
  (:mod:`projections.timelines`). The same version again keeps the earlier time.
- *A deletion* is certain: a uid never returns, so a late observation does not restore the object. It names the
  object's owner, unless a newer observation did.
- *A complete list* without the object ends it, unless the object was observed after the list's request, or in a
  version after the list's. A list may be wrong: an object observed later exists. Of several lists the newest
  counts.

A deleted object is remembered for late observations; of very many the oldest are forgotten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import Any, ClassVar, Generic

import msgspec

from bus.events.observations import ObjectsListed
from bus.events.pods import Owner, PodsListed
from bus.kube.kinds import QUOTA_LABELS
from projections import timelines
from projections.cluster.rows import POD, Make, Namespace, Pod, R, Row, Workload
from projections.engine.parts import Part

#: Most remembered deleted objects of one store.
GONE_KEPT = 50_000


class Gone(msgspec.Struct, frozen=True, gc=False):
    """A deleted object, since an observed deletion or a complete list without it.

    For a workload it keeps the owner and quota of the newest observation: pods outlive both, and arrive late.
    """

    uid: str
    kind: str
    namespace: str
    name: str
    #: When the deletion was observed, or the list was asked for.
    at_us: int
    #: The list; 0 = the deletion was observed, and is certain.
    listed_us: int = 0
    #: Of a workload: its newest observation; 0 = there was none.
    seen_us: int = 0
    version: str = ""
    owner: Owner | None = None
    #: Of :data:`bus.kube.kinds.QUOTA_LABELS` only. Shared: never changed.
    labels: dict[str, str] = {}

    @property
    def was_seen(self) -> bool:
        """Whether its owner and its labels are known."""
        return self.seen_us > 0


class Change(msgspec.Struct, frozen=True, gc=False):
    """The change of one object by one event: its row before and after. ``gone`` if it does not exist after it.

    Neither row for a late observation of a gone object.
    """

    kind: str
    #: Of a namespace, identified by name, its name.
    uid: str
    before: Row | Namespace | None
    after: Row | Namespace | None
    gone: Gone | None = None


def covers(fact: ObjectsListed | PodsListed, uid: str) -> bool:
    """Whether this part of a list would show an object ``uid``."""
    return fact.first <= uid and (not fact.until or uid < fact.until)


class _Part(msgspec.Struct):
    """One part of a complete list. Row or ``unseen`` hold its members: each uid is stored once."""

    first: str
    until: str
    version: str
    asked_us: int
    parts: int
    #: In the list, and not observed yet.
    unseen: set[str]

    def covers(self, uid: str) -> bool:
        return self.first <= uid and (not self.until or uid < self.until)

    def contains(self, other: _Part) -> bool:
        is_open = not self.until or (bool(other.until) and other.until <= self.until)
        return self.first <= other.first and is_open


class SavedStore(msgspec.Struct, Generic[R]):
    """The part of a snapshot for a store."""

    rows: dict[str, R]
    gone: dict[str, Gone]
    _ended: dict[str, R]
    _parts: dict[str, list[_Part]]


class ObjectStore(Part, Generic[R]):
    """Follows the objects of one cluster. The changes of an event are added to ``changes``."""

    Saved = SavedStore
    derived: ClassVar[frozenset[str]] = frozenset({"_changes", "_sorted", "_unsorted"})

    def __init__(self, changes: list[Change]) -> None:
        self._changes = changes
        #: Existing objects, by uid.
        self.rows: dict[str, R] = {}
        #: Gone objects, by uid, the oldest first.
        self.gone: dict[str, Gone] = {}
        #: Rows of objects ended by a list only.
        self._ended: dict[str, R] = {}
        #: By kind: the parts of the newest lists, the newest first.
        self._parts: dict[str, list[_Part]] = {}
        #: By kind, once there was a list: uids in order, of existing or possible objects, and of some gone ones.
        self._sorted: dict[str, list[str]] = {}
        #: Kinds with newer uids behind those in order.
        self._unsorted: set[str] = set()

    def observed(self, kind: str, uid: str, version: str, time_us: int, make: Make[R]) -> None:
        """An object was observed in a version. ``make`` gives its row."""
        gone = self.gone.get(uid)
        if gone is not None and not gone.listed_us:
            self._remember(gone, version, time_us, make)
            return
        exists = self.rows.get(uid)
        known = exists if exists is not None else self._ended.get(uid)
        if known is None:
            row = make(known)
            self._came(kind, uid)
        elif timelines.is_ordered(version) and known.version == version:
            if time_us < known.seen_us:
                row = make(known)
                row.last_us = known.last_us
            else:
                known.last_us = max(known.last_us, time_us)
                if exists is not None:
                    return
                row = known
            row.listed_us = known.listed_us
        elif timelines.precedes(known.version, known.seen_us, version, time_us):
            row = make(known)
            row.listed_us = known.listed_us
        else:
            return
        self._decide(kind, exists, row)

    def vanished(self, kind: str, uid: str, namespace: str, name: str, time_us: int) -> None:
        """An object was seen to be deleted."""
        before = self.rows.pop(uid, None)
        last = self._ended.pop(uid, before)
        known = self.gone.get(uid)
        if known is not None and not known.listed_us:
            if time_us >= known.at_us:
                return
            # The first word of it counts, whichever comes first.
            self.gone[uid] = msgspec.structs.replace(known, at_us=time_us)
            return
        gone = _of_last(Gone(uid, kind, namespace, name, time_us), last)
        self._bury(gone)
        for part in self._parts.get(kind, ()):
            part.unseen.discard(uid)
        self._changes.append(Change(kind, uid, before, None, gone))

    def listed(self, kind: str, fact: ObjectsListed | PodsListed, asked_us: int) -> None:
        """A part of a complete list of a kind, requested at ``asked_us``."""
        present = set(fact.uids)
        part = _Part(
            fact.first, fact.until, fact.resource_version, asked_us, fact.parts, set()
        )  # fmt: skip
        parts = self._parts.setdefault(kind, [])
        newer = [one for one in parts if _rank(one) > _rank(part)]
        if any(one.contains(part) for one in newer):
            return
        known = set[str]()
        for uid in self._within(kind, part):
            exists = self.rows.get(uid)
            row = exists if exists is not None else self._ended.get(uid)
            if row is None or row.kind != kind:
                continue
            known.add(uid)
            if any(one.covers(uid) for one in newer):
                continue
            row.listed_us = asked_us if uid in present else 0
            if uid not in present or exists is None:
                self._place(kind, exists, row, part)
        part.unseen = {uid for uid in present - known if not self._is_certainly_gone(uid)}
        parts.insert(len(newer), part)
        self._parts[kind] = _needed(parts)

    def listed_us(self, kind: str) -> int:
        """The request time of the newest complete and fully published list of a kind; 0 = none."""
        found: Counter[tuple[int, str]] = Counter()
        for part in self._parts.get(kind, ()):
            one_list = part.asked_us, part.version
            found[one_list] += 1
            if found[one_list] == part.parts:
                return part.asked_us
        return 0

    def _decide(self, kind: str, exists: R | None, row: R) -> None:
        """Whether the newest list able to show this row lacks it."""
        parts = self._parts.get(kind)
        part = next((one for one in parts if one.covers(row.uid)), None) if parts else None
        if part is not None and row.uid in part.unseen:
            part.unseen.discard(row.uid)
            row.listed_us = part.asked_us
        self._place(kind, exists, row, part)

    def _place(self, kind: str, exists: R | None, row: R, part: _Part | None) -> None:
        uid = row.uid
        if part is None or row.listed_us == part.asked_us or _outlives(row, part):
            self._ended.pop(uid, None)
            self.gone.pop(uid, None)
            self.rows[uid] = row
            if exists is not row:
                self._changes.append(Change(kind, uid, exists, row))
            return
        self._ended[uid] = row
        if exists is not None:
            del self.rows[uid]
        gone = Gone(uid, kind, row.namespace, row.name, part.asked_us, part.asked_us)
        gone = _of_last(gone, row)
        self._bury(gone)
        if exists is not None:
            self._changes.append(Change(kind, uid, exists, None, gone))

    def _bury(self, gone: Gone) -> None:
        self.gone.pop(gone.uid, None)
        self.gone[gone.uid] = gone
        if len(self.gone) > GONE_KEPT:
            oldest = next(iter(self.gone))
            del self.gone[oldest]
            self._ended.pop(oldest, None)

    def _remember(self, gone: Gone, version: str, time_us: int, make: Make[R]) -> None:
        """A late observation of a deleted object."""
        if gone.kind == POD:
            return
        known = (gone.version, gone.seen_us) if gone.was_seen else None
        if not timelines.replaces(version, time_us, known):
            return
        after = self.gone[gone.uid] = _of_last(gone, make(None))
        if not gone.was_seen or (after.owner, after.labels) != (gone.owner, gone.labels):
            self._changes.append(Change(gone.kind, gone.uid, None, None, after))

    def _is_certainly_gone(self, uid: str) -> bool:
        gone = self.gone.get(uid)
        return gone is not None and not gone.listed_us

    def _came(self, kind: str, uid: str) -> None:
        uids = self._sorted.get(kind)
        if uids is None:
            return
        if len(uids) > 2 * len(self.rows) + 1_000:
            # Most of them are gone.
            del self._sorted[kind]
            return
        uids.append(uid)
        self._unsorted.add(kind)

    def _within(self, kind: str, part: _Part) -> list[str]:
        """The uids of a kind in the range of a part, in order."""
        uids = self._sorted.get(kind)
        if uids is None:
            found = [uid for uid, row in self.rows.items() if row.kind == kind]
            found += [uid for uid, row in self._ended.items() if row.kind == kind]
            uids = self._sorted[kind] = sorted(found)
        elif kind in self._unsorted:
            # Most are in order: this merges.
            uids.sort()
        self._unsorted.discard(kind)
        begin = bisect_left(uids, part.first)
        return uids[begin : bisect_left(uids, part.until) if part.until else len(uids)]


def _of_last(gone: Gone, row: Row | None) -> Gone:
    """With its last row's data of a workload."""
    if not isinstance(row, Workload):
        return gone
    named = tuple((key, row.labels[key]) for key in QUOTA_LABELS if key in row.labels)
    return msgspec.structs.replace(
        gone, seen_us=row.seen_us, version=row.version, owner=row.owner, labels=_named(named)
    )


@lru_cache(maxsize=8_192)
def _named(labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(labels)


def _outlives(row: Row, part: _Part) -> bool:
    """Whether an object missing in a list was observed after its request, or in a version after the list's."""
    if row.last_us >= part.asked_us:
        return True
    is_ordered = timelines.is_ordered(row.version) and timelines.is_ordered(part.version)
    return is_ordered and timelines.precedes(part.version, 0, row.version, 0)


def _rank(part: _Part) -> tuple[int, bool, int, str, str, str]:
    """Orders lists by age: by request time, then by version."""
    is_ordered = timelines.is_ordered(part.version)
    length = len(part.version) if is_ordered else 0
    return (part.asked_us, is_ordered, length, part.version, part.first, part.until)


def _needed(parts: list[_Part]) -> list[_Part]:
    """Without the parts superseded by newer ones; newest first."""
    kept: list[_Part] = []
    found: dict[tuple[int, str], int] = {}
    for part in parts:
        if any(one.contains(part) for one in kept):
            continue
        kept.append(part)
        one_list = (part.asked_us, part.version)
        found[one_list] = found.get(one_list, 0) + 1
        if found[one_list] == part.parts:
            # All of this list is here, so no older one says anything.
            return kept
    return kept


def share(rows: Iterable[Pod | Workload]) -> None:
    """Hold equal values of a snapshot's rows as one object in memory, as for rows made from facts."""
    texts: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}
    owners: dict[Owner, Owner] = {}
    constraints: dict[bytes, Any] = {}

    def one(found: dict[str, Any]) -> dict[str, Any]:
        key = tuple(found.items())
        before = texts.get(key)
        if before is None:
            before = texts[key] = {intern(name): _interned(value) for name, value in key}
        return before

    for row in rows:
        row.namespace = intern(row.namespace)
        row.labels, row.annotations = one(row.labels), one(row.annotations)
        if row.owner is not None:
            row.owner = owners.setdefault(row.owner, row.owner)
        if isinstance(row, Workload):
            row.kind = intern(row.kind)
            continue
        row.phase, row.node, row.team = intern(row.phase), intern(row.node), intern(row.team)
        row.demand, row.by_claim = one(row.demand), one(row.by_claim)
        if row.constraints is not None:
            encoded = msgspec.msgpack.encode(row.constraints)
            row.constraints = constraints.setdefault(encoded, row.constraints)


def _interned(value: Any) -> Any:
    return intern(value) if isinstance(value, str) else value

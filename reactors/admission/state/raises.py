"""Raised charges of owners for children that are not observed yet: until then they do not fall. Pure but for its state.

The decision is in the history before the child. So a child is settled by the first observation after it, or by a
complete list requested after the child could no longer land.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided
from bus.events.observations import ObjectsListed
from bus.events.pods import PodObserved, PodsListed, PodVanished
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from projections import timelines
from projections.engine.parts import Part
from projections.quota_trees.keys import EXPECTED
from projections.quota_trees.shape import LANDED_US

_SEEN = {PodObserved.wire_type, WorkloadObserved.wire_type}
_GONE = {PodVanished.wire_type, WorkloadVanished.wire_type}


class _Raise(msgspec.Struct, frozen=True):
    holder: str
    kind: str
    version: str
    asked_us: int


class _Seen(msgspec.Struct):
    resource_version: str


_seen = msgspec.json.Decoder(_Seen)


class SavedRaises(msgspec.Struct):
    """The raised charges in a snapshot."""

    _by_child: dict[str, _Raise]
    _holders: dict[str, int]


class Raises(Part):
    """Follows one cluster."""

    Saved = SavedRaises

    def __init__(self) -> None:
        self._by_child: dict[str, _Raise] = {}
        self._holders: Counter[str] = Counter()

    def waits(self, holder: str) -> bool:
        """Whether a child of ``holder`` may still land."""
        return self._holders[holder] > 0

    def is_raised(self, uid: str, live: Mapping[str, int]) -> bool:
        """Whether an admitted child of an object is not observed yet. ``live``: the live pods below the object."""
        return self.waits(uid) or EXPECTED in live

    def decided(self, fact: AdmissionDecided, time_us: int) -> None:
        """A decision was stored."""
        if fact.child is not None and fact.verdict == "admitted":
            self._settle(fact.child.uid)
            self._by_child[fact.child.uid] = _Raise(
                fact.uid, fact.child.kind, fact.child.version, time_us
            )
            self._holders[fact.uid] += 1

    def seen(self, event: Event, is_placed: Callable[[str], bool]) -> str | None:
        """Fold an event of the history. Returns the uid of the holder of the settled child.

        ``is_placed(uid)``: the owner of a child is known. Until then it counts nowhere, and the holder waits for it.
        """
        raised = self._by_child.get(event.key)
        if raised is None:
            return None
        if event.type in _SEEN:
            version = _seen.decode(event.body).resource_version
            has_landed = not raised.version or timelines.precedes(raised.version, 0, version, 0)
            if not (has_landed and is_placed(event.key)):
                return None
        elif event.type not in _GONE:
            return None
        return self._settle(event.key)

    def listed(self, kind: str, fact: ObjectsListed | PodsListed, listed_us: int) -> set[str]:
        """Fold a complete list. Returns the holders of the settled children."""
        late = [
            uid
            for uid, one in self._by_child.items()
            if one.kind == kind
            and fact.first <= uid
            and (not fact.until or uid < fact.until)
            and listed_us >= one.asked_us + LANDED_US
        ]
        return {holder for uid in late if (holder := self._settle(uid)) is not None}

    def due(self, late_us: int, after_us: int = -1) -> set[str]:
        """The kinds whose complete list would settle something decided after ``after_us`` until ``late_us``."""
        raises = self._by_child.values()
        return {one.kind for one in raises if after_us < one.asked_us <= late_us}

    def _settle(self, uid: str) -> str | None:
        raised = self._by_child.pop(uid, None)
        if raised is None:
            return None
        self._holders[raised.holder] -= 1
        if not self._holders[raised.holder]:
            del self._holders[raised.holder]
        return raised.holder

"""Covered objects with an admitted change of the request of one replica: a scale does not contain it. Pure but for its
state.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

import msgspec

from bus.events.admissions import Child
from projections import timelines
from projections.engine.parts import Part
from projections.quota_trees.shape import LANDED_US
from reactors.admission.coverage.objects import ChargedObjects, Object


class SavedReshaped(msgspec.Struct):
    """The admitted changes in a snapshot."""

    _changes: dict[str, tuple[str, int]]


class Reshaped(Part):
    """The newest admitted change of each existing object."""

    Saved = SavedReshaped
    derived = frozenset({"_next_us"})

    def __init__(self) -> None:
        #: By uid, oldest first: (version before the change, time).
        self._changes: dict[str, tuple[str, int]] = {}
        #: Reviews ask for it, and users may keep many changes from landing: it is done once in a while.
        self._next_us = 0

    def add(self, child: Child, now_us: int) -> None:
        """A change was admitted, and may land."""
        version, _ = self._changes.pop(child.uid, (child.version, 0))
        is_later = timelines.precedes(version, 0, child.version, 0)
        self._changes[child.uid] = (child.version if is_later else version, now_us)

    def has(self, found: Object) -> bool:
        """Whether a change may have landed after the newest observation."""
        if (change := self._changes.get(found.uid)) is None:
            return False
        is_passed = timelines.precedes(change[0], 0, found.version, 0)
        return not (is_passed or found.listed_us >= change[1] + LANDED_US)

    def expire(self, now_us: int, objects: ChargedObjects) -> None:
        """Drop changes of observed or absent objects, once they cannot land any more."""
        if now_us < self._next_us:
            return
        self._next_us = now_us + LANDED_US
        for uid, (_, changed_us) in list(self._changes.items()):
            if changed_us + LANDED_US > now_us:
                break
            found = objects.get(uid)
            if found is None or not self.has(found):
                del self._changes[uid]

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._changes.pop(uid, None)

"""The controllers named by objects that were admitted in their own right. Such a controller never covers the object,
even after its charge has fallen to nothing. Pure but for its state.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

import msgspec

from projections.engine.parts import Part
from projections.quota_trees.shape import ANY_OWNER, MOST_OWNERS, Grant

#: Of more objects the oldest are forgotten.
KEPT = 100_000


class SavedNamed(msgspec.Struct):
    """The named controllers in a snapshot."""

    _owners: dict[str, tuple[str, ...]]


class Named(Part):
    """The controllers named by each object at its own admission; for very many names, any controller."""

    Saved = SavedNamed

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, ...]] = {}

    def add(self, uid: str, owner: str) -> None:
        """An object was admitted so, though it named this controller."""
        owners = self._owners.pop(uid, ())
        if owner not in owners and ANY_OWNER not in owners:
            owners = (*owners, owner) if len(owners) < MOST_OWNERS else (ANY_OWNER,)
        self._owners[uid] = owners
        if len(self._owners) > KEPT:
            del self._owners[next(iter(self._owners))]

    def has(self, uid: str, owner: str) -> bool:
        """Whether this controller does not answer for the object."""
        return _has(self._owners.get(uid, ()), owner)

    def forget(self, uid: str) -> None:
        """Forget a deleted object without further use."""
        self._owners.pop(uid, None)


def named(grant: Grant, owner: str) -> bool:
    """Whether the charged object was admitted in its own right, though it named this controller. :class:`Named` forgets the
    oldest of very many; a charge records the named controllers for its whole life.
    """
    return _has(grant.owners, owner)


def _has(owners: tuple[str, ...], owner: str) -> bool:
    return not {owner, ANY_OWNER}.isdisjoint(owners)

"""Candidates: reservations possibly meant for a pod, found by an index. Pure but for its state.

An owner of a reservation matches a pod only with all its fields, so one field is enough to exclude most pods: a label with its
text, else the name or uid of the pod or of its controller. An owner without any of these may match every pod. The caller compares
the results by the rules of :mod:`reactors.scheduling.reservations.rules`.
"""

from __future__ import annotations

from typing import TypeAlias

from bus.events.pods import ReservationOwner
from projections.cluster.reservations import Reservation
from reactors.scheduling.reservations.rules import Applicant

#: The kind of the field, its name, and its text.
_Key: TypeAlias = tuple[str, str, str]
_ANYBODY: _Key = ("", "", "")


class ReservationCandidates:
    """Reservations by one field of each of their owners."""

    def __init__(self) -> None:
        self._keys: dict[str, set[_Key]] = {}
        self._uids: dict[_Key, set[str]] = {}

    def put(self, row: Reservation, *, is_there: bool = True) -> None:
        """Index a reservation by its present fields, or remove it."""
        self.remove(row.uid)
        if not is_there:
            return
        keys = self._keys[row.uid] = {self._key(owner) for owner in row.owners}
        for key in keys:
            self._uids.setdefault(key, set()).add(row.uid)

    def remove(self, uid: str) -> None:
        """Remove a reservation. Nothing without it."""
        for key in self._keys.pop(uid, ()):
            uids = self._uids[key]
            uids.discard(uid)
            if not uids:
                del self._uids[key]

    def of(self, pod: Applicant) -> list[str]:
        """The uids of all possible reservations of a pod, in their order."""
        if not self._uids:
            return []
        keys = [_ANYBODY, ("pod", "uid", pod.uid), ("pod", "name", pod.name)]
        keys += [("label", name, text) for name, text in pod.labels.items()]
        for one in pod.references:
            keys += (("controller", "uid", one.uid), ("controller", "name", one.name))
        found: set[str] = set()
        return sorted(found.union(*(self._uids.get(key, ()) for key in keys)))

    def _key(self, owner: ReservationOwner) -> _Key:
        selector = owner.label_selector
        if selector is not None and selector.match_labels:
            several = [("label", name, text) for name, text in selector.match_labels.items()]
            # The label with the fewest reservations, as all may name the team's label.
            return min(several, key=lambda key: len(self._uids.get(key, ())))
        for what, named in (("pod", owner.object), ("controller", owner.controller)):
            if named is not None and named.uid:
                return what, "uid", named.uid
            if named is not None and named.name:
                return what, "name", named.name
        return _ANYBODY

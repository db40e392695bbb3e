"""The schedule cycle of gangs by the counting of Koordinator 1.0. Pure but for its state.

Each pod of a strict gang is tried once in a cycle. If one finds no node the cycle has failed, and no other pod of the gang is
tried in it. The next cycle begins after as many attempts as the gang has pods in all. A gang is not counted, and never held up, if
it was complete once, has a bound pod, or is not strict: a bound pod is tried no more, and would be missing for ever. A pass is
decided by trial: its counts are taken back at its end.

Source: koordinator-sh/koordinator v1.0, coscheduling/core (PreFilter, PostFilter); docs/scheduling.md, "Gangs".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from reactors.scheduling.gangs.shape import Gang, GangCycle, Needs


class KnownGangs(Protocol):
    """The gangs with counted cycles: :class:`reactors.scheduling.gangs.state.Gangs`."""

    @property
    def all(self) -> Mapping[str, Gang]:
        """By key."""

    def of(self, uid: str) -> Gang | None:
        """The gang of a pod; None = it has none."""

    def is_strict(self, key: str) -> bool:
        """Whether it is strict, and was never complete."""

    def needs(self, key: str) -> Needs | None:
        """The needs of a gang; None if not stated."""


class _Before(msgspec.Struct, frozen=True):
    """The state of a cycle before an attempt or a failure in it."""

    key: str
    cycle: GangCycle | None
    #: The tried pod, "" = none, and the cycle of its attempt before.
    uid: str = ""
    tried: int | None = None


class GangCycles:
    """The cycles of the gangs of one cluster, by gang; a gang without an attempt has none."""

    def __init__(self, gangs: KnownGangs) -> None:
        self._gangs = gangs
        self.all: dict[str, GangCycle] = {}
        self._log: list[_Before] | None = None

    def restore(self, saved: Mapping[str, GangCycle]) -> None:
        """Go on with the saved cycles of gangs still existing."""
        for key, one in saved.items():
            gang = self._gangs.all.get(key)
            if gang is None:
                continue
            tried = {uid: number for uid, number in one.tried.items() if uid in gang.pods}
            count = sum(number == one.number for number in tried.values())
            self.all[key] = GangCycle(one.number, one.is_valid, count, tried)

    def saved(self) -> dict[str, GangCycle]:
        """The part of a snapshot for cycles."""
        return dict(sorted(self.all.items()))

    def counts(self, uid: str) -> bool:
        """Whether a pod is tried once in a cycle: its gang is strict, and was never complete."""
        gang = self._gangs.of(uid)
        return gang is not None and self._gangs.is_strict(gang.key)

    def refusal(self, uid: str) -> str:
        """The reason why a pod is not tried now; "" = it may be."""
        gang = self._gangs.of(uid)
        if gang is None or gang.bound or not self.counts(uid):
            return ""
        now = self._advanced(gang.key)
        if not now.is_valid:
            return f"cycle {now.number} of gang {gang.key} has failed, and not all of its pods were tried in it"
        if now.tried.get(uid, 0) >= now.number:
            return f"the pod was tried in cycle {now.number} of gang {gang.key}"
        return ""

    def tried(self, uid: str) -> None:
        """Count an attempt of a pod, successful or not."""
        gang = self._gangs.of(uid)
        if gang is None:
            return
        now = self._advanced(gang.key)
        before = now.tried.get(uid)
        if self._log is not None:
            self._log.append(_Before(gang.key, self.all.get(gang.key), uid, before))
        now.count += before != now.number
        now.tried[uid] = now.number
        self.all[gang.key] = now

    def failed(self, uid: str) -> None:
        """A tried pod has no node: the cycle of its strict gang has failed."""
        gang = self._gangs.of(uid)
        known = self.all.get(gang.key) if gang is not None else None
        if gang is None or gang.bound or known is None or not self.counts(uid):
            return
        if self._log is not None:
            self._log.append(_Before(gang.key, known))
        self.all[gang.key] = GangCycle(known.number, False, known.count, known.tried)

    def left(self, key: str, uid: str, *, is_over: bool) -> None:
        """A pod left a gang; ``is_over``: it was the last one."""
        known = self.all.get(key)
        if known is not None:
            known.count -= known.tried.pop(uid, 0) == known.number
        if is_over:
            self.all.pop(key, None)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take back all counts of a trial at its end."""
        log = self._log = list[_Before]()
        try:
            yield
        finally:
            self._log = None
            for one in reversed(log):
                now = self.all.pop(one.key)
                if one.tried is not None:
                    now.tried[one.uid] = one.tried
                elif one.uid:
                    del now.tried[one.uid]
                if one.cycle is not None:
                    self.all[one.key] = one.cycle

    def _advanced(self, key: str) -> GangCycle:
        """A gang's cycle at the next pod's attempt. It shares its attempts with the one before."""
        known, needs = self.all.get(key) or GangCycle(), self._gangs.needs(key)
        if needs is not None and known.count == needs.total:
            return GangCycle(known.number + 1, True, 0, known.tried)
        return GangCycle(known.number, known.is_valid, known.count, known.tried)

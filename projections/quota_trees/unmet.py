"""What was asked of a tree's quotas and refused for want of room: it is wanted still, for a while.

A refused workload is asked again by its controller or its user; what is not asked again within :data:`WANTED_US` is wanted
no longer. Asks are told apart by kind, namespace and name, as each try to create has another uid. Time is that of
the journal's entries and of the moments that :meth:`Refused.elapse` is told, so a replay forgets the same.

Source: ``docs/admission.md``, "ElasticQuotas".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bus.clock import SECOND_US
from bus.events.admissions import AdmissionDecided
from projections.engine.parts import Part
from projections.quota_trees.keys import charged

#: So long a refused ask counts. Five minutes: the controllers of Kubernetes ask again within five minutes for as long as a
#: refusal is young, and what nobody asks for any more must not keep others from borrowing for long.
WANTED_US = 300 * SECOND_US
#: Most refused asks that one tree remembers, the newest.
MOST = 1_000

OVER_QUOTA = "over-quota"


class Unmet(msgspec.Struct, frozen=True):
    """What a workload wants of a quota and does not hold, by key. ``since_us``: when it asked first."""

    quota: str
    uid: str
    kind: str
    namespace: str
    name: str
    wants: dict[str, int]
    since_us: int
    priority_class: str = ""

    @property
    def title(self) -> str:
        """Kind, namespace and name, as people write them."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def place(self) -> tuple[int, str, str, str, str]:
        """What orders: who asked first; names break ties."""
        return self.since_us, self.quota, self.kind, self.namespace, self.name


_Name = tuple[str, str, str]


class SavedRefused(msgspec.Struct):
    """The part of a snapshot for refused requests."""

    _found: dict[_Name, tuple[Unmet, int]]


class Refused(Part):
    """The refused asks of one tree, the one that was asked longest ago first."""

    Saved = SavedRefused

    def __init__(self) -> None:
        #: With the moment of the last ask.
        self._found: dict[_Name, tuple[Unmet, int]] = {}

    def __iter__(self) -> Iterator[Unmet]:
        for one, _ in self._found.values():
            yield one

    def __len__(self) -> int:
        return len(self._found)

    def apply(self, fact: AdmissionDecided, held: Mapping[str, int], time_us: int) -> None:
        """One more answer; ``held`` is what the quota holds for the object already."""
        self.elapse(time_us)
        name = (fact.kind, fact.namespace, fact.name)
        before = self._found.pop(name, None)
        if fact.verdict != "refused" or fact.reason != OVER_QUOTA:
            return
        is_again = before is not None and before[0].quota == fact.quota
        since_us = before[0].since_us if before is not None and is_again else time_us
        wanted = charged(fact.demand, fact.types)
        rises = {key: n - held.get(key, 0) for key, n in wanted.items() if n > held.get(key, 0)}
        one = Unmet(fact.quota, fact.uid, *name, rises, since_us, fact.priority_class)
        self._found[name] = (one, time_us)
        if len(self._found) > MOST:
            del self._found[next(iter(self._found))]

    def elapse(self, at_us: int) -> None:
        """Forget what was not asked again for so long."""
        while self._found:
            name, (_, asked_us) = next(iter(self._found.items()))
            if asked_us + WANTED_US > at_us:
                return
            del self._found[name]

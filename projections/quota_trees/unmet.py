"""Requests to a tree's quotas, refused for want of room: they stay wanted for a while.

A refused workload is requested again by its controller or its user; one not requested again within
:data:`WANTED_US` is wanted no longer. Requests are identified by kind, namespace and name, as each try to create
has another uid. Time comes from the journal's entries and from :meth:`Refused.elapse`, so a replay forgets the
same.

Source: ``docs/admission.md``, "ElasticQuotas".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bus.clock import SECOND_US
from bus.events.admissions import AdmissionDecided
from projections.engine.parts import Part
from projections.quota_trees.keys import charged

#: Lifetime of a refused request. Five minutes: the controllers of Kubernetes try again within five minutes after a
#: recent refusal, and abandoned requests must not keep others from borrowing for long.
WANTED_US = 300 * SECOND_US
#: Most remembered refused requests of one tree, the newest.
MOST = 1_000

OVER_QUOTA = "over-quota"


class Unmet(msgspec.Struct, frozen=True):
    """A workload's demand on a quota without a charge, by key. ``since_us``: its first request."""

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
        """The order: oldest request first; names break ties."""
        return self.since_us, self.quota, self.kind, self.namespace, self.name


_Name = tuple[str, str, str]


class SavedRefused(msgspec.Struct):
    """The part of a snapshot for refused requests."""

    _found: dict[_Name, tuple[Unmet, int]]


class Refused(Part):
    """The refused requests of one tree, the longest unrepeated one first."""

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
        """One more answer; ``held`` is the quota's charge for the object already."""
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
        """Forget requests not repeated for that long."""
        while self._found:
            name, (_, asked_us) = next(iter(self._found.items()))
            if asked_us + WANTED_US > at_us:
                return
            del self._found[name]

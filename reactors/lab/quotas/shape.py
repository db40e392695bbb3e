"""Values of the lab for quotas: trials, journal entries, lives of workloads, and findings. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from bus.envelope import Event
from bus.events.admissions import AdmissionDecided, AdmissionReleased, QuotaDeclared
from projections.quota_trees.tree import Fact
from reactors.lab.rules import RULES, Rule
from reactors.queue.shape import WaitingWorkload

#: A workload by its user's names: quota, kind, namespace, name.
Workload = tuple[str, str, str, str]
#: The first rule is the likely one.
QUOTA_RULES: tuple[Rule, ...] = (*RULES, "longest")


class Proposed(msgspec.Struct, frozen=True):
    """The tried fields of a quota; all others are as on record. Amounts as in :class:`bus.events.admissions.QuotaSpec`."""

    hard: Mapping[str, int] = {}
    #: By key without ``cash/``.
    cash: Mapping[str, int] = {}
    min: Mapping[str, int] = {}
    max: Mapping[str, int] = {}
    weight: Mapping[str, int] = {}
    #: Fields of :class:`bus.events.quotas.Queue`.
    queue: Mapping[str, bool | str | int] = {}
    #: Fields of the spec itself: ``exhaustion``, ``lends``.
    fields: Mapping[str, str | bool] = {}
    #: Another quota of the same tree; None = as on record.
    parent: str | None = None

    def declared(self, fact: QuotaDeclared) -> QuotaDeclared:
        """A quota with its tried fields."""
        known = fact.spec
        if known is None:
            return fact
        most = {**known.max, **self.max}
        # A quota without a weight has its max as weight, whatever the max is.
        weight = most if known.weight == known.max else known.weight
        spec = msgspec.structs.replace(
            known,
            hard={**known.hard, **self.hard},
            cash={**known.cash, **self.cash},
            min={**known.min, **self.min},
            max=most,
            weight={**weight, **self.weight},
            queue=msgspec.structs.replace(known.queue, **self.queue),
            **self.fields,
        )
        parent = fact.parent if self.parent is None else self.parent
        return msgspec.structs.replace(fact, spec=spec, parent=parent)


#: By quota: its tried fields.
Limits = Mapping[str, Proposed]


class Arrived(msgspec.Struct, frozen=True):
    """A workload was observed as held, waiting for ``quota``."""

    quota: str
    waiting: WaitingWorkload


class Reordered(msgspec.Struct, frozen=True):
    """A person moved a waiting workload."""

    quota: str
    uid: str
    priority: int
    is_stopped: bool


class Withdrawn(msgspec.Struct, frozen=True):
    """A held workload was deleted."""

    quota: str
    uid: str


Queued: TypeAlias = Arrived | Reordered | Withdrawn


class Entry(msgspec.Struct, frozen=True):
    """An entry of a tree's journal, or a change of its queues, with its place in the history."""

    event: Event
    fact: Fact | Queued


class Life(msgspec.Struct):
    """A workload's charge on record, from start to end; 0 = to the end of the history."""

    uid: str
    from_us: int
    until_us: int = 0

    @property
    def runs_us(self) -> int:
        """Its length; 0 = to the end."""
        return self.until_us - self.from_us if self.until_us else 0


class Changed(msgspec.Struct):
    """A workload with another answer: ``let_in``, ``refused``, ``waited`` for a later run, ``sooner``."""

    kind: str
    workload: Workload
    uid: str
    at_us: int
    #: Its delay against the record; below 0 = sooner.
    waited_us: int = 0

    @property
    def quota(self) -> str:
        """The requested quota."""
        return self.workload[0]


class HeldTime(msgspec.Struct):
    """A time of a charge on record only (``is_saved``), or under trial only."""

    quota: str
    is_saved: bool
    cpu_milli: int
    gpu_milli: int
    from_us: int
    until_us: int


class TreePlayed(msgspec.Struct, frozen=True):
    """The result of one rule on a tree's journal. ``answers``: by quota the numbers admitted on record, and under trial."""

    rule: Rule
    changed: tuple[Changed, ...]
    held: tuple[HeldTime, ...]
    answers: Mapping[str, tuple[int, int]]


class Lives:
    """The lives of all workloads of a journal, for the rules. A workload returned to its queue has several."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._of: dict[tuple[str, str], list[Life]] = {}
        self._named: dict[Workload, list[Life]] = {}
        self._ended: dict[str, list[int]] = {}
        for entry in entries:
            fact, at_us = entry.fact, entry.event.time_us
            if isinstance(fact, AdmissionDecided) and fact.verdict != "refused":
                lives = self._of.setdefault((fact.quota, fact.uid), [])
                if not lives or lives[-1].until_us:
                    lives.append(Life(fact.uid, at_us))
                    self._named.setdefault(workload_of(fact), []).append(lives[-1])
            elif isinstance(fact, AdmissionReleased):
                for release in fact.releases:
                    if not release.charge:
                        self._end(release.quota, release.uid, at_us)
        for spans in self._ended.values():
            spans.sort()
        for lives in self._named.values():
            lives.sort(key=lambda one: one.from_us)

    def _end(self, quota: str, uid: str, at_us: int) -> None:
        lives = self._of.get((quota, uid))
        if lives and not lives[-1].until_us:
            lives[-1].until_us = max(at_us, lives[-1].from_us)
            self._ended.setdefault(quota, []).append(lives[-1].runs_us)

    def at(self, quota: str, uid: str, at_us: int) -> Life:
        """The newest life of a workload begun by ``at_us``. Raises KeyError without any."""
        lives = self._of[quota, uid]
        return lives[max(bisect.bisect_right(lives, at_us, key=lambda one: one.from_us) - 1, 0)]

    def first(self, quota: str, uid: str) -> Life:
        """The first life of a workload. Raises KeyError without any."""
        return self._of[quota, uid][0]

    def last(self, quota: str, uid: str) -> Life | None:
        """The last life of a workload; None if it never ran."""
        lives = self._of.get((quota, uid))
        return lives[-1] if lives else None

    def later(self, workload: Workload, at_us: int) -> Life | None:
        """The next life of a workload of this name."""
        lives = self._named.get(workload, [])
        place = bisect.bisect_left(lives, at_us, key=lambda one: one.from_us)
        return lives[place] if place < len(lives) else None

    def usual_us(self, quota: str, rule: Rule) -> int:
        """The median run of a quota's workloads, or the longest; 0 if none ended."""
        spans = self._ended.get(quota) or [0]
        return spans[-1 if rule in ("longest", "never") else len(spans) // 2]


def workload_of(fact: AdmissionDecided) -> Workload:
    """The names of a workload. Without a name of its own, its controller or its uid identifies it."""
    return fact.quota, fact.kind, fact.namespace, fact.name or fact.owner or fact.uid


def amounts(demand: Mapping[str, int]) -> tuple[int, int]:
    """Milli-cores and milli-GPUs of a demand: its requests, else its limits."""
    cpu = demand.get("requests.cpu", demand.get("limits.cpu", 0))
    gpus: dict[str, int] = {}
    for prefix in ("limits.", "requests."):
        for key, number in demand.items():
            if key.startswith(prefix) and key.endswith("/gpu"):
                gpus[key.removeprefix(prefix)] = number
    return cpu, 1_000 * sum(gpus.values())

"""The life of each recorded pod with a wait for a node: its arrival, node, running time and end.

It reads the whole record before a trial, as later events report earlier ends. Pure but for its own state.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.charges import charged_bytes
from bus.clock import SECOND_US, parse_stamp
from bus.envelope import Event
from bus.errors import MalformedJsonError, TimestampError
from bus.events.pods import PodObserved, PodsListed, PodState, PodVanished
from bus.events.vocabulary import Fact
from bus.events.volumes import ClaimObserved
from projections.cluster import covers
from projections.cluster.rows import ENDED
from projections.cluster.volumes import ClaimKey

DAEMON_SET = "DaemonSet"
#: Upper bound of the time for a bind, for records where most pods wait.
LONGEST_BIND_US = 2 * SECOND_US


class PodLife(msgspec.Struct):
    """A pod on record. Times in microseconds UTC; 0 = not observed yet."""

    uid: str
    namespace: str
    name: str
    team: str
    owner: str
    cpu_milli: int
    gpu_milli: int
    arrived_us: int
    node: str = ""
    bound_us: int = 0
    ended_us: int = 0
    #: It ended by itself, without a deletion.
    is_work: bool = False

    @property
    def runs_us(self) -> int:
        """Its running time; 0 if it did not run, or has not ended."""
        return max(self.ended_us - self.bound_us, 0) if self.bound_us and self.ended_us else 0


class PodLives:
    """Pods by uid: those observed without a node first, and those bound since ``begin_us``.

    ``claims``: the volume claims observed by then.
    """

    #: Facts read by it.
    reads = (PodObserved, PodVanished, PodsListed, ClaimObserved)

    def __init__(self, begin_us: int = 0, claims: Iterable[ClaimKey] = ()) -> None:
        self.of: dict[str, PodLife] = {}
        #: The time of the newest event; an earlier time may come from a wrong clock.
        self.last_us = begin_us
        #: Namespaces and names of all observed volume claims.
        self.claims = set(claims)
        self._begin_us = begin_us
        self._alive: set[str] = set()
        #: Pods with a node before.
        self._placed: set[str] = set()
        self._runs: dict[str, list[int]] = {}
        self._medians: dict[str, int] = {}
        self._waits: list[int] = []

    def apply(self, fact: Fact, event: Event) -> None:
        """Read the next recorded event."""
        self.last_us = event.time_us
        if isinstance(fact, PodsListed):
            present = set(fact.uids)
            for uid in [one for one in self._alive if covers(fact, one) and one not in present]:
                self._end(self.of[uid], event.time_us, is_work=False)
        elif isinstance(fact, PodState):
            self._pod(fact, event.time_us)
        elif isinstance(fact, ClaimObserved):
            self.claims.add((fact.namespace, fact.name))

    def median_us(self, namespace: str) -> int:
        """The median running time of a namespace's pods, else of all; 0 if none ended. Valid after the last event."""
        if namespace not in self._medians:
            runs = sorted(self._runs.get(namespace) or self._runs.get("") or [0])
            self._medians[namespace] = runs[len(runs) // 2]
        return self._medians[namespace]

    @property
    def bind_us(self) -> int:
        """The time to bind a pod without a wait: the longest of the fastest tenth of waits. Valid after the last event."""
        waits = sorted(self._waits) or [0]
        return min(waits[len(waits) // 10], LONGEST_BIND_US)

    def _pod(self, fact: PodState, at_us: int) -> None:
        life = self.of.get(fact.uid)
        if life is not None and _has_devices(fact):
            # Its claim was created after it: it has its node from the start.
            del self.of[fact.uid]
            self._alive.discard(fact.uid)
            self._placed.add(fact.uid)
            return
        if life is None:
            if isinstance(fact, PodVanished):
                self._placed.discard(fact.uid)
            if isinstance(fact, PodVanished) or fact.uid in self._placed:
                return
            life = self._arrived(fact, at_us) if not _has_devices(fact) else None
            if life is None:
                self._placed.add(fact.uid)
                return
            self.of[fact.uid] = life
            self._alive.add(fact.uid)
        if fact.node and not life.node:
            life.node = fact.node
            # The stamp has whole seconds; an observation later than one was not immediate.
            bound_us = min(at_us, (_us(fact.scheduled) or at_us) + SECOND_US)
            life.bound_us = max(bound_us, life.arrived_us)
            self._waits.append(life.bound_us - life.arrived_us)
        is_over = fact.phase in ENDED
        if not life.ended_us and (is_over or isinstance(fact, PodVanished)):
            by_itself = is_over and not fact.disrupted and not fact.disruption
            self._end(life, at_us, is_work=by_itself and fact.deletion is None)

    def _arrived(self, fact: PodState, at_us: int) -> PodLife | None:
        """A pod observed for the first time; None if it had its node from the start, or earlier."""
        # Pods observed before the period were created then.
        came_us = at_us if at_us > self._begin_us else _us(fact.created) or at_us
        if fact.node:
            # Its bind and its creation were observed together, for example after a gap: no attempt is possible before.
            if not fact.scheduled or _us(fact.created) < self._begin_us:
                return None
        elif fact.phase in ENDED:
            return None
        try:
            amounts = charged_bytes(bytes(fact.resources))
        except MalformedJsonError:
            return None
        kind = fact.owner.kind if fact.owner is not None else ""
        return PodLife(
            fact.uid, fact.namespace, fact.name, fact.team or "", kind, amounts.cpu_millicores,
            amounts.gpu_milligpus, came_us,
        )  # fmt: skip

    def _end(self, life: PodLife, at_us: int, *, is_work: bool) -> None:
        life.ended_us, life.is_work = max(at_us, life.bound_us), is_work
        self._alive.discard(life.uid)
        if life.runs_us:
            for name in (life.namespace, ""):
                self._runs.setdefault(name, []).append(life.runs_us)


def _has_devices(fact: PodState) -> bool:
    """Whether claims give it devices."""
    return bool(fact.claims or fact.claim_templates or fact.claimed)


def _us(stamp: str | None) -> int:
    """Microseconds of a stamp; 0 if it is unreadable."""
    try:
        return parse_stamp(stamp or "")
    except TimestampError:
        return 0

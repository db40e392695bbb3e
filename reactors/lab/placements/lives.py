"""What became of each pod on record that waited for a node: when it came, where it ran and when, and how it ended.

Fed with the record before anything is tried, as what ends later is told by what is seen later. Pure but for its own state.
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
#: Where most pods wait, no longer than this is taken for the time that a bind takes.
LONGEST_BIND_US = 2 * SECOND_US


class PodLife(msgspec.Struct):
    """A pod on record. Times in microseconds UTC; 0 = it was not, or is not yet."""

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
    #: It ended by itself, and nobody ended it.
    is_work: bool = False

    @property
    def runs_us(self) -> int:
        """How long it ran; 0 for one that did not, or has not ended."""
        return max(self.ended_us - self.bound_us, 0) if self.bound_us and self.ended_us else 0


class PodLives:
    """Pods by uid, of those that came while nobody had given them a node, or that were given one since ``begin_us``.

    ``claims``: the claims of volumes that there were by then.
    """

    #: The facts that it needs.
    reads = (PodObserved, PodVanished, PodsListed, ClaimObserved)

    def __init__(self, begin_us: int = 0, claims: Iterable[ClaimKey] = ()) -> None:
        self.of: dict[str, PodLife] = {}
        #: The time of the newest event: that of one before it may be of a wrong clock.
        self.last_us = begin_us
        #: Namespaces and names of all claims of volumes that were seen.
        self.claims = set(claims)
        self._begin_us = begin_us
        self._alive: set[str] = set()
        #: Pods that had a node before.
        self._placed: set[str] = set()
        self._runs: dict[str, list[int]] = {}
        self._medians: dict[str, int] = {}
        self._waits: list[int] = []

    def apply(self, fact: Fact, event: Event) -> None:
        """The next event of the record."""
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
        """How long half of the pods of a namespace ran at most, else of all; 0 where none ended. Asked when all was taken."""
        if namespace not in self._medians:
            runs = sorted(self._runs.get(namespace) or self._runs.get("") or [0])
            self._medians[namespace] = runs[len(runs) // 2]
        return self._medians[namespace]

    @property
    def bind_us(self) -> int:
        """How long it takes to bind a pod that needs not wait: what one of ten waits at most. Asked when all was taken."""
        waits = sorted(self._waits) or [0]
        return min(waits[len(waits) // 10], LONGEST_BIND_US)

    def _pod(self, fact: PodState, at_us: int) -> None:
        life = self.of.get(fact.uid)
        if life is not None and _has_devices(fact):
            # Its claim was made after it: it has its node from the start.
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
            # The stamp has whole seconds; what is seen later than that was not seen at once.
            bound_us = min(at_us, (_us(fact.scheduled) or at_us) + SECOND_US)
            life.bound_us = max(bound_us, life.arrived_us)
            self._waits.append(life.bound_us - life.arrived_us)
        is_over = fact.phase in ENDED
        if not life.ended_us and (is_over or isinstance(fact, PodVanished)):
            by_itself = is_over and not fact.disrupted and not fact.disruption
            self._end(life, at_us, is_work=by_itself and fact.deletion is None)

    def _arrived(self, fact: PodState, at_us: int) -> PodLife | None:
        """A pod that is seen for the first time; None where it had its node from the start, or before."""
        # What was seen before the period was made then.
        came_us = at_us if at_us > self._begin_us else _us(fact.created) or at_us
        if fact.node:
            # Its bind was seen together with its creation, after a gap say: nobody can try it before that.
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
    """Whether it is given devices by claims."""
    return bool(fact.claims or fact.claim_templates or fact.claimed)


def _us(stamp: str | None) -> int:
    """0 for a stamp that is none."""
    try:
        return parse_stamp(stamp or "")
    except TimestampError:
        return 0

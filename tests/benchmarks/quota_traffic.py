"""Made-up traffic of quotas: jobs that ask, are admitted or refused, or wait in a queue, and are bound and end.

Deterministic, and by time. Eight quotas of 40 cores, each a tree of its own; every second one has a queue, and the others
refuse what does not fit. The entries of each journal are those of an admission that counts as Bursar does: one that is
admitted fits, and a queue releases its first as soon as there is room. What entries were decided on (``based_on``, the
history that was read) is left out, so they cannot be derived again. Each start is one scheduling pass of one pod.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterator

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    Basis,
    Deficit,
    QuotaDeclared,
    QuotaSpec,
    Release,
)
from bus.events.decisions import SchedulingPassed, TriedPod
from bus.events.quotas import Queue, QuotaObserved
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from tests.benchmarks import synthetic

QUOTAS = 8
KEY = "limits.cpu"
HARD = 40_000
LABEL = "biz.group.resource.quota"
KIND = "BizGroupResourceQuota"
#: A quota is asked for 85 % of what it has when jobs come this far apart, in seconds: mean cores by mean length.
APART = 4.5 * 3_900 / (0.85 * HARD / 1_000)


class Traffic:
    """One quota and its jobs, from a moment on for so many seconds."""

    def __init__(self, number: int, seconds: int, begin_us: int) -> None:
        self._number, self._seconds, self._begin_us = number, seconds, begin_us
        self._rng = random.Random(number)
        self.name = f"group-{number}"
        self._tree, self._queue = f"biz/{self.name}", Queue(hold=number % 2 == 1, order="Strict")
        self._entries = self._versions = self._said = self._used = 0
        self._waiting: deque[tuple[str, int]] = deque()
        #: (second, number of the job, uid, milli cores) of those that run.
        self._ends: list[tuple[int, int, str, int]] = []
        self._at = 0

    def events(self) -> Iterator[Event]:
        """Everything that is said of it."""
        yield from self._declared()
        came, number = self._rng.expovariate(1 / APART), 0
        while came < self._seconds:
            while self._ends and self._ends[0][0] <= came:
                yield from self._ended()
            self._at = int(came)
            yield from self._comes(f"{self.name}-job-{number}", 1_000 * self._rng.randrange(1, 9))
            came += self._rng.expovariate(1 / APART)
            number += 1

    def _declared(self) -> Iterator[Event]:
        uid, hard = f"uid-{self.name}", {KEY: HARD}
        seen = QuotaObserved(
            uid=uid, kind=KIND, name=self.name, resource_version=self._version(), hard=hard, queue=self._queue
        )  # fmt: skip
        yield self._event(seen, uid)
        yield self._entry(
            QuotaDeclared(
                number=self._next(), quota=self.name, uid=uid, kind=KIND, parent="", stage="observed", verdict="adopted",
                reason="seen", spec=QuotaSpec(hard=hard, queue=self._queue),
            )
        )  # fmt: skip

    def _comes(self, uid: str, milli: int) -> Iterator[Event]:
        if self._queue.hold:
            yield self._seen(uid, milli, held=True)
            self._waiting.append((uid, milli))
            yield from self._released()
        elif self._used + milli <= HARD:
            yield self._decided(uid, milli, "admitted", "fits", operation="CREATE", basis=Basis())
            yield self._seen(uid, milli)
            yield self._starts(uid, milli)
        else:
            deficit = Deficit(KEY, milli, self._used, HARD)
            yield self._decided(
                uid, milli, "refused", "over-quota", operation="CREATE", basis=Basis(), deficits=(deficit,)
            )  # fmt: skip

    def _released(self) -> Iterator[Event]:
        while self._waiting and self._used + self._waiting[0][1] <= HARD:
            uid, milli = self._waiting.popleft()
            yield self._decided(uid, milli, "admitted", "released", operation="RELEASE")
            resumed = Basis(is_resumed=True)
            yield self._decided(uid, milli, "admitted", "fewer", operation="UPDATE", basis=resumed)
            yield self._seen(uid, milli)
            yield self._starts(uid, milli)

    def _ended(self) -> Iterator[Event]:
        self._at, _, uid, milli = heapq.heappop(self._ends)
        self._used -= milli
        version = self._version()
        gone = WorkloadVanished(
            uid=uid, kind="Job", namespace=self.name, name=uid, resource_version=version
        )
        yield self._event(gone, uid)
        given_back = Release(self.name, uid, "vanished")
        yield self._entry(AdmissionReleased(number=self._next(), releases=(given_back,)))
        yield from self._released()

    def _starts(self, uid: str, milli: int) -> Event:
        self._used += milli
        length = self._rng.randrange(600, 7_200)
        heapq.heappush(self._ends, (self._at + length, self._said, uid, milli))
        tried = TriedPod(f"{uid}-0", self.name, f"{uid}-0", 0, synthetic.NODES, -1)
        passed = SchedulingPassed(
            profile="default", after=0, assumed=0, rules=1, policy="", at_us=self._time_us(), count=synthetic.NODES,
            nodes=(f"node-{self._said % synthetic.NODES}",), pods=(tried,),
        )  # fmt: skip
        return self._event(passed, "default")

    def _seen(self, uid: str, milli: int, *, held: bool = False) -> Event:
        amounts = {"requests.cpu": milli, KEY: milli}
        waits = {"suspended": True, "wanted": amounts, "held": True} if held else {}
        fact = WorkloadObserved(
            uid=uid, kind="Job", namespace=self.name, name=uid, resource_version=self._version(), labels={LABEL: self.name},
            demand={} if held else amounts, per_replica=amounts, replicas=1, pods=0 if held else 1, **waits,
        )  # fmt: skip
        return self._event(fact, uid)

    def _decided(self, uid: str, milli: int, verdict: str, reason: str, **fields: object) -> Event:
        amounts = {"requests.cpu": milli, KEY: milli}
        number = self._next()
        request = "" if reason == "released" else f"review-{self.name}-{number}"
        fact = AdmissionDecided(
            number=number, request=request, quota=self.name, uid=uid, kind="Job", namespace=self.name, name=uid, verdict=verdict,
            reason=reason, demand=amounts, charge=amounts if verdict == "admitted" else {}, **fields,
        )  # fmt: skip
        return self._entry(fact)

    def _next(self) -> int:
        self._entries += 1
        return self._entries

    def _version(self) -> str:
        self._versions += 1
        return str(self._versions)

    def _time_us(self) -> int:
        # No two events of a quota have one time, so that they stay in this order beside others.
        return self._begin_us + self._at * SECOND_US + self._said % SECOND_US

    def _entry(self, fact: Fact) -> Event:
        return self._event(fact, self._tree)

    def _event(self, fact: Fact, key: str) -> Event:
        self._said += 1
        id = f"{self.name}/{self._said}/{fact.wire_type}"
        return fact.event(
            cluster=synthetic.CLUSTER, key=key, id=id, source="benchmark", time_us=self._time_us()
        )


def events(seconds: int, begin_us: int) -> list[Iterator[Event]]:
    """For each quota its events, by time."""
    return [Traffic(number, seconds, begin_us).events() for number in range(QUOTAS)]

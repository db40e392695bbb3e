"""Records refusals and queued workloads as ``events.k8s.io/v1`` Events beside the workload.

``kubectl get events`` shows them also to other people than the requester: a controller, a CronJob, a colleague. They are only
for readers. The decision is in the history, so a lost Event loses no fact. A failed write is counted and
left out, old refusals are not reported again after a restart, and no crash leaves anything to repair.

A repeated refusal is one Event with a series, written at most once a minute. All of them together and those of each
namespace are bounded, so a controller in an endless retry cannot fill a cluster.

Source: Kubernetes API reference, events.k8s.io/v1; client-go ``tools/events`` (a series ends after six minutes).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from bus.clock import SECOND_US, Clock, format_stamp
from bus.envelope import Event
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.events.admissions import AdmissionDecided
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.kube.kinds import GOVERNED
from projections.quota_trees import Tree
from reactors.admission.deciding.messages import sentence
from reactors.admission.deciding.rate import Buckets, Rate

Json = dict[str, Any]

CONTROLLER = "bursar.io/admission"
QUEUED = "queued"
#: Longest note of the API server, bytes.
LONGEST_NOTE = 1024
#: Between two writes of one series, and after how long without a refusal it ends.
APART_US = 60 * SECOND_US
ENDS_US = 6 * 60 * SECOND_US
#: An older refusal is not news.
FRESH_US = 10 * 60 * SECOND_US
#: Most series at once; the oldest is dropped.
MOST_SERIES = 1_000
#: Writes of all together, and of one namespace: of refusals, and as many of waits.
ALL = Rate(per_second=5, burst=50)
EACH = Rate(per_second=1, burst=10)
#: Between two searches for due writes.
PACE_SECONDS = 0.5

#: Most waiting workloads at once; of very many the oldest are forgotten, and reported again when they change.
MOST_WAITING = 10_000
_READ = {one.wire_type for one in (AdmissionDecided, WorkloadObserved, WorkloadVanished)}

_API_VERSIONS = {kind.kind: f"{kind.group}/{kind.versions[0]}".lstrip("/") for kind in GOVERNED}

_log = logging.getLogger(__name__)


class EventClient(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """A new object in the collection at ``path``."""
        ...

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """JSON merge patch of the object at ``path``."""
        ...


Waiting = Callable[[str], tuple[AdmissionDecided, str] | None]
"""The answer to the workload of this uid and the text about it; None where it waits in no queue."""


class Series(msgspec.Struct):
    """One refusal, or one wait, told ``count`` times so far: first and last at these microseconds."""

    name: str
    decision: AdmissionDecided
    note: str
    first_us: int
    last_us: int
    count: int = 1
    #: How often the Event says so, and since when; 0 = it was not written yet.
    written: int = 0
    written_us: int = 0
    is_wait: bool = False


def record(series: Series, instance: str, *, is_shadow: bool = False) -> Json:
    """The Event of a series. ``instance`` is its reporter, at most 128 characters."""
    decision = series.decision
    is_normal = is_shadow or series.is_wait
    note = (
        series.note
        if series.is_wait or not is_shadow
        else f"Bursar would refuse this: {series.note}"
    )
    reason = QUEUED if series.is_wait else decision.reason
    body: Json = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": decision.namespace},
        "eventTime": micro_time(series.first_us),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128] or "bursar",
        "action": "Admit",
        "reason": "".join(word.capitalize() for word in reason.split("-"))[:128],
        "regarding": {
            "apiVersion": _API_VERSIONS.get(decision.kind, ""),
            "kind": decision.kind,
            "namespace": decision.namespace,
            "name": decision.name,
            "uid": decision.uid,
        },
        "note": note.encode()[:LONGEST_NOTE].decode(errors="ignore"),
        "type": "Normal" if is_normal else "Warning",
    }
    return body if series.count < 2 else {**body, **repeated(series)}


def repeated(series: Series) -> Json:
    """The changing part of an Event: the count, and the time of the last."""
    last = micro_time(series.last_us)
    return {"series": {"count": series.count, "lastObservedTime": last}}


def micro_time(us: int) -> str:
    """As the API server reads it: six digits of a fraction, always."""
    text = format_stamp(us)
    return text if "." in text else text.replace("Z", ".000000Z")


class Recorder:
    """Reports new refusals of a cluster, in the keeper's process."""

    def __init__(
        self,
        cluster: EventClient,
        clock: Clock,
        tree: Callable[[str], Tree],
        *,
        instance: str,
        is_shadow: bool = False,
        waiting: Waiting = lambda uid: None,
    ) -> None:
        """``waiting`` must have taken each event before."""
        #: Refusals by result: ``written``, ``denied``, ``refused``, ``gone`` (with their namespace), ``crowded`` (out).
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._clock = clock
        self._tree = tree
        self._instance = instance
        self._is_shadow = is_shadow
        self._waiting = waiting
        #: Observed waits, the newest last.
        self._seen: dict[str, None] = {}
        self._series: dict[tuple[str, ...], Series] = {}
        self._due = asyncio.Event()
        self._all, self._each = Buckets(ALL), Buckets(EACH)

    def apply(self, event: Event) -> None:
        """Fold one event of the history; writes nothing."""
        if event.defect or event.type not in _READ:
            return
        is_old = event.time_us < self._clock.now_us() - FRESH_US
        if event.type != AdmissionDecided.wire_type:
            if (found := self._begun(event)) is not None and not is_old:
                self._add(event, *found, is_wait=True)
            return
        decision = AdmissionDecided.read(event)
        if decision.verdict == "refused" and decision.namespace and not is_old:
            self._add(event, decision, sentence(decision, self._tree(event.key)))

    def _begun(self, event: Event) -> tuple[AdmissionDecided, str] | None:
        """The report of a workload that began to wait with this event; None for any other event."""
        # In texts quotes are escaped, so this stands only where the field has it.
        if b'"held":true' not in event.body or event.type != WorkloadObserved.wire_type:
            self._seen.pop(event.key, None)
            return None
        if event.key in self._seen or (found := self._waiting(event.key)) is None:
            return None
        self._seen[event.key] = None
        if len(self._seen) > MOST_WAITING:
            del self._seen[next(iter(self._seen))]
        return found

    def _add(
        self, event: Event, decision: AdmissionDecided, note: str, *, is_wait: bool = False
    ) -> None:
        reason = QUEUED if is_wait else decision.reason
        key = (decision.namespace, decision.kind, decision.name, decision.quota, reason)
        known = self._series.pop(key, None)
        if known is None or event.time_us - known.last_us > ENDS_US:
            name = "bursar." + hashlib.blake2b(event.id.encode(), digest_size=8).hexdigest()
            known = Series(name, decision, note, event.time_us, event.time_us, is_wait=is_wait)
        else:
            known.count += 1
            known.last_us = max(known.last_us, event.time_us)
        # The newest last: the least recently reported one is dropped.
        self._series[key] = known
        if len(self._series) > MOST_SERIES:
            crowded = self._series.pop(next(iter(self._series)))
            self.counts["crowded"] += crowded.written < crowded.count
        self._due.set()

    async def run(self) -> None:
        """Write for ever, at a pace independent of the number of refusals."""
        while True:
            await self._due.wait()
            await self.work()
            if not any(one.written < one.count for one in self._series.values()):
                self._due.clear()
            await asyncio.sleep(PACE_SECONDS)

    async def work(self) -> None:
        """Write the due reports; the rest waits."""
        spent: set[bool] = set()
        for key, series in list(self._series.items()):
            now_us = self._clock.now_us()
            if now_us - series.last_us > ENDS_US and series.written == series.count:
                self._series.pop(key, None)
            elif series.written < series.count and now_us >= series.written_us + APART_US:
                is_wait = series.is_wait
                if is_wait in spent or not self._each.takes((key[0], is_wait), now_us):
                    continue
                if not self._all.takes(is_wait, now_us):
                    spent.add(is_wait)
                    continue
                await self._report(key, series, now_us)

    async def _report(self, key: tuple[str, ...], series: Series, now_us: int) -> None:
        """One write. A permanent failure is counted, and not tried again until the next refusal."""
        count, outcome = series.count, "written"
        try:
            await self._write(series)
        except ClusterUnavailableError as error:
            await asyncio.sleep(error.delay_seconds)
            return
        except NotFoundError:
            # The namespace, or an expired Event, is gone: the next refusal begins a new one.
            outcome = "gone"
            self._series.pop(key, None)
        except RequestRefusedError as error:
            outcome = "refused"
            _log.warning("an Event is not taken: %s", error)
        except PermissionDeniedError as error:
            outcome = "denied"
            if not self.counts[outcome]:
                _log.error("refusals are not told as Events: %s", error)
        self.counts[outcome] += 1
        series.written, series.written_us = count, now_us

    async def _write(self, series: Series) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{series.decision.namespace}/events"
        if series.written:
            await self._cluster.merge(f"{path}/{series.name}", repeated(series))
            return
        try:
            await self._cluster.create(
                path, record(series, self._instance, is_shadow=self._is_shadow)
            )
        except ConflictError:
            # Its name follows from the decision: an attempt that seemed to fail had made it.
            return

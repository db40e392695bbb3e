"""The PodMigrationJobs of a cluster, and the decided steps of each until they are observed.

Jobs, reservations and pods are those of the state of the cluster. A decided status is the job's until the cluster shows another
one, or does not show it for a minute. A refused step rests, twice as long each time up to an hour.

Source: docs/migration.md; docs/architecture.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.clock import ClockTicked
from bus.events.decisions import Decision, EffectSettled, Evict
from bus.events.migrations import (
    EndMigration,
    EndReservation,
    MigrationObserved,
    MigrationVanished,
    MovedPod,
    ReportMigration,
    ReserveRoom,
)
from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed, PodState, ReservationObserved, ReservationVanished
from bus.events.policies import Mode, PolicyChanged
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from projections.cluster import POD, ClusterState, Pod
from projections.cluster.held import READS
from projections.cluster.migrations import Migration
from projections.cluster.reservations import FAILED as ROOM_FAILED
from projections.cluster.reservations import Reservation
from projections.engine.parts import Part
from projections.quota_trees.forest import QuotaTrees
from reactors.migration import NAME
from reactors.migration.shape import (
    OPEN,
    RUNNING,
    UNSCHEDULABLE,
    MigrationJob,
    MigrationScene,
    MigrationStatus,
    PodToMove,
    ReservedRoom,
)
from reactors.migration.steps import DROP, EVICT, RESERVE

REPORT, END = "report", "end"
#: A step executed and not observed so long after its decision is decided again.
UNSEEN_US = 60 * SECOND_US
#: A pod in no list is missing after its job was known so long.
UNKNOWN_US = 30 * SECOND_US
REST_US = 60 * SECOND_US
LONGEST_REST_US = 3_600 * SECOND_US
#: The result of a step in shadow.
SHADOW = "shadow"


class MigrationAttempt(msgspec.Struct, frozen=True):
    """A decided step. ``result`` "" = its outcome is unknown."""

    decision: str
    at_us: int
    result: str = ""
    message: str = ""
    rests_until_us: int = 0


class TrackedMigration(msgspec.Struct):
    """The state of a job beyond its object. ``attempts`` by step."""

    since_us: int
    pod_uid: str = ""
    #: The newest decided status, until it is observed.
    reported: MigrationStatus | None = None
    attempts: dict[str, MigrationAttempt] = {}
    #: How often each step was refused.
    refusals: dict[str, int] = {}


class SavedMigrations(msgspec.Struct):
    """The part of a snapshot for migrations."""

    tracked: dict[str, TrackedMigration]
    awaited: dict[str, tuple[tuple[str, ...], str]]
    mode: Mode
    off_us: int
    counts: dict[tuple[str, str], int]


class MigrationState(Part):
    """The state of migrations, a :class:`reactors.engine.contract.State`. ``tracked`` by the job's uid."""

    Saved = SavedMigrations
    derived = frozenset({"state", "touched"})
    reads: ClassVar[tuple[type[Fact], ...]] = (
        MigrationObserved, MigrationVanished, ReservationObserved, ReservationVanished, PodState, PodsListed, ObjectsListed,
        WorkloadObserved, WorkloadVanished, ClockTicked, PolicyChanged, ReserveRoom, ReportMigration, EndReservation,
        EndMigration, Evict, EffectSettled, *READS,
    )  # fmt: skip

    def __init__(self, state: ClusterState, _: QuotaTrees) -> None:
        self.state = state
        self.tracked: dict[str, TrackedMigration] = {}
        #: Decisions in progress, by id: the uids of the jobs and the step. Several jobs may wait for one eviction.
        self.awaited: dict[str, tuple[tuple[str, ...], str]] = {}
        self.mode: Mode = "off"
        #: When migrations were last switched off. Bursar does not follow PodMigrationJobs from then on.
        self.off_us = 0
        #: (phase, reason) of ended jobs: how many.
        self.counts: Counter[tuple[str, str]] = Counter()
        #: The jobs of the newest event.
        self.touched: set[str] = set()

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event."""
        self.touched = set()
        for change in self.state.changes(event):
            if change.kind == Migration.kind:
                self._job(change.uid, change.before, change.after, event.time_us)
            elif change.kind == Reservation.kind and self.tracked:
                row = change.after or change.before
                self.touched |= {uid for uid in self.tracked if self._names(uid, row)}
            elif change.kind == POD and self.tracked:
                self.touched |= self._moved(change.uid)
        if isinstance(fact, ClockTicked):
            self._elapse(event.time_us)
        elif isinstance(fact, PolicyChanged) and fact.reactor == NAME:
            self.mode = fact.mode
            if fact.mode == "off":
                self.off_us = event.time_us
            for one in self.tracked.values():
                # A step executed by the API server stays executed, and one in progress may be.
                one.attempts = {k: a for k, a in one.attempts.items() if a.result in ("", "done")}
                one.reported = None
        elif isinstance(fact, Decision) and fact.reactor == NAME:
            self._decided(fact)
        elif isinstance(fact, EffectSettled) and fact.reactor == NAME:
            self._settled(fact, event.time_us)

    def _job(self, uid: str, before: object, after: object, at_us: int) -> None:
        if not isinstance(after, Migration):
            self.tracked.pop(uid, None)
            return
        self.touched.add(uid)
        tracked = self.tracked.setdefault(uid, TrackedMigration(at_us))
        status = written(after)
        if isinstance(before, Migration) and before.phase in OPEN and after.phase not in OPEN:
            self.counts[(after.phase, after.reason)] += 1
        if tracked.reported is not None and is_same(tracked.reported, status):
            tracked.reported = None
            tracked.attempts.pop(REPORT, None)

    def _names(self, uid: str, row: object) -> bool:
        job = self.state.migrations.get(uid)
        return isinstance(row, Reservation) and job is not None and row.name == job.reservation

    def _moved(self, pod: str) -> set[str]:
        return {uid for uid, one in self.tracked.items() if one.pod_uid == pod}

    def _decided(self, decision: Decision) -> None:
        step, uids = _step_of(decision), [decision.target.uid]
        if isinstance(decision, EndReservation):
            uids = [decision.job]
        elif isinstance(decision, Evict):
            uids = [uid for uid, pod in self._pods() if pod.uid == decision.key]
        uids = [uid for uid in uids if uid in self.tracked]
        for uid in uids:
            tracked = self.tracked[uid]
            result = SHADOW if decision.is_shadow else ""
            if isinstance(decision, Evict | ReserveRoom):
                tracked.pod_uid = decision.key if isinstance(decision, Evict) else decision.pod.uid
            tracked.attempts[step] = MigrationAttempt(decision.id, decision.at_us, result)
            if isinstance(decision, ReportMigration):
                tracked.reported = _reported(decision)
                tracked.pod_uid = decision.pod_uid or tracked.pod_uid
        if uids and not decision.is_shadow:
            self.awaited[decision.id] = (tuple(uids), step)

    def _settled(self, fact: EffectSettled, at_us: int) -> None:
        uids, step = self.awaited.pop(fact.decision, ((), ""))
        for uid in uids:
            tracked = self.tracked.get(uid)
            attempt = tracked.attempts.get(step) if tracked is not None else None
            if tracked is None or attempt is None or attempt.decision != fact.decision:
                continue
            self.touched.add(uid)
            self._ended(tracked, attempt, step, fact, at_us)

    def _ended(
        self, tracked: TrackedMigration, attempt: MigrationAttempt, step: str, fact: EffectSettled, at_us: int
    ) -> None:  # fmt: skip
        """An attempt has its outcome."""
        is_gone = step == EVICT and (
            fact.result == "gone" or tracked.pod_uid not in self.state.pods
        )
        if fact.result == "done" or is_gone:
            # A pod deleted by then is created again, and is bound to the reservation.
            tracked.attempts[step] = msgspec.structs.replace(attempt, result="done")
        elif fact.result == "refused":
            tracked.refusals[step] = times = tracked.refusals.get(step, 0) + 1
            rest_us = min(REST_US << min(times - 1, 10), LONGEST_REST_US)
            tracked.attempts[step] = msgspec.structs.replace(
                attempt, result="refused", message=fact.message, rests_until_us=at_us + rest_us
            )
            if step == REPORT:
                tracked.reported = None
        else:
            del tracked.attempts[step]
            if step == REPORT:
                tracked.reported = None

    def _elapse(self, now_us: int) -> None:
        for tracked in self.tracked.values():
            for step, one in list(tracked.attempts.items()):
                is_unseen = (
                    one.result == "done" and step != EVICT and now_us - one.at_us >= UNSEEN_US
                )
                if is_unseen or (one.rests_until_us and now_us >= one.rests_until_us):
                    del tracked.attempts[step]
                    if step == REPORT:
                        tracked.reported = None

    # questions

    @property
    def knows_jobs(self) -> bool:
        """Whether a complete list of the jobs was read since they are followed."""
        return self.state.listed_us(Migration.kind) > self.off_us

    def job(self, uid: str) -> MigrationJob:
        """A job with the newest decided status; in shadow with its own status."""
        row, tracked = self.state.migrations[uid], self.tracked[uid]
        is_ahead = tracked.reported is not None and self.mode == "on"
        return MigrationJob(
            uid=uid, name=row.name, created_us=row.created_us, is_paused=row.is_paused or row.is_terminating,
            ttl_us=row.ttl_us, mode=row.mode, pod_namespace=row.pod_namespace, pod_name=row.pod_name,
            reservation=row.reservation,
            status=tracked.reported if is_ahead and tracked.reported is not None else written(row),
        )  # fmt: skip

    def pod(self, uid: str) -> Pod | None:
        """The pod of a job, while it exists and has not ended."""
        row, tracked = self.state.migrations[uid], self.tracked[uid]
        pod_uid = tracked.pod_uid or row.pod_uid
        if not pod_uid:
            pod_uid = self.state.named(POD, row.pod_namespace, row.pod_name)
        found = self.state.pods.get(pod_uid)
        if found is None or (found.namespace, found.name) != (row.pod_namespace, row.pod_name):
            return None
        return None if found.is_ended else found

    def room(self, uid: str) -> Reservation | None:
        """The reservation named by a job's object; None before the job names one.

        Its name alone proves nothing: every user with the right may create a Reservation named by the uid of a job.
        """
        name = self.state.migrations[uid].reservation
        return (
            self.state.reservations.get(self.state.named(Reservation.kind, "", name))
            if name
            else None
        )

    def moving(self) -> Iterator[tuple[str, Pod]]:
        """Running jobs, each with its pod."""
        yield from (one for one in self._pods() if self.job(one[0]).status.phase == RUNNING)

    def _pods(self) -> Iterator[tuple[str, Pod]]:
        """Jobs still open, each with its pod."""
        for uid in sorted(self.tracked):
            pod = self.pod(uid) if self.job(uid).status.phase in OPEN else None
            if pod is not None:
                yield uid, pod

    def scene(self, uid: str, now_us: int, forbidden: str = "", held: str = "") -> MigrationScene:
        """The surroundings of a job."""
        tracked, pod, row = self.tracked[uid], self.pod(uid), self.room(uid)
        known_us = self.state.listed_us(POD)
        is_young = not known_us or now_us - tracked.since_us < UNKNOWN_US
        attempts = {step: tracked.attempts.get(step) for step in (RESERVE, EVICT)}
        words = {
            step: one.message if one is not None and one.result == "refused" else ""
            for step, one in attempts.items()
        }
        waits_for = attempts[RESERVE if row is None and self.job(uid).reserves else EVICT]
        done = attempts[EVICT]
        return MigrationScene(
            pod=None if pod is None else PodToMove(pod.uid, pod.node),
            is_pod_unknown=pod is None and is_young,
            reservation=None if row is None else self._room(uid, row),
            forbidden=forbidden, held=held,
            is_outstanding=waits_for is not None and waits_for.result != "refused",
            is_evicted=done is not None and done.result == "done",
            refused_reservation=words[RESERVE], refused_eviction=words[EVICT],
        )  # fmt: skip

    def _room(self, uid: str, row: Reservation) -> ReservedRoom:
        missing = [
            one.message for one in row.conditions
            if one.type == "Scheduled" and not one.is_true and one.reason == UNSCHEDULABLE
        ]  # fmt: skip
        is_expired = row.phase == ROOM_FAILED and any(
            one.type == "Ready" and one.reason == "Expired" for one in row.conditions
        )
        moved = self.tracked[uid].pod_uid
        owners = [one for one in row.current_owners if one != moved]
        is_for_pod = any(
            one.object is not None and one.controller is None and one.label_selector is None
            for one in row.owners
        )
        return ReservedRoom(
            row.phase, row.node, is_expired, missing[0] if missing else None,
            self._owner(owners[0]) if owners else None, is_for_pod, is_own=row.name == uid,
        )  # fmt: skip

    def _owner(self, uid: str) -> MovedPod:
        pod = self.state.pods.get(uid)
        return MovedPod(uid=uid) if pod is None else MovedPod(pod.namespace, pod.name, uid)


def written(row: Migration) -> MigrationStatus:
    """The status in a job's object."""
    return MigrationStatus(
        row.phase, row.status, row.reason, row.message, row.node, row.new_pod, row.conditions
    )


def is_same(one: MigrationStatus, other: MigrationStatus) -> bool:
    """Whether two statuses are equal, apart from messages."""
    first, second = (
        {(c.type, c.is_true, c.reason) for c in status.conditions} for status in (one, other)
    )
    mine, theirs = ((s.phase, s.status, s.reason, s.node) for s in (one, other))
    return mine == theirs and first == second


def _step_of(decision: Decision) -> str:
    if isinstance(decision, ReserveRoom):
        return RESERVE
    if isinstance(decision, Evict):
        return EVICT
    if isinstance(decision, EndReservation):
        return DROP
    return END if isinstance(decision, EndMigration) else REPORT


def _reported(decision: ReportMigration) -> MigrationStatus:
    return MigrationStatus(
        decision.phase, decision.status, decision.cause, decision.message, decision.node,
        decision.new_pod, decision.conditions,
    )  # fmt: skip

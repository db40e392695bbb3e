"""The scheduler's effects in the acting process: binds from passes, and the reasons on waiting pods."""

from __future__ import annotations

import asyncio
import hashlib
import platform
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from bus.clock import SECOND_US, Clock
from bus.events.decisions import BindResult, BindSettled, Evict, FailedBind
from bus.events.devices import device_name
from bus.transport import Transport
from bus.waiting import Moves
from reactors.engine.replica import Replica
from reactors.scheduling import NAME
from reactors.scheduling.effectors.binder import Binder
from reactors.scheduling.effectors.notices import NoticedPod, PodNotices, telling
from reactors.scheduling.effectors.reservations import ReservationStatuses, writing
from reactors.scheduling.framework.bind import Outcomes, Placement
from reactors.scheduling.framework.bind_cycle import Known
from reactors.scheduling.queueing.queue import Place
from reactors.scheduling.shape import CONFIRMED_US
from reactors.scheduling.state import SchedulingState

if TYPE_CHECKING:
    from projections.cluster import Pod
    from reactors.engine.adapters import Adapters, EffectorTable
    from reactors.scheduling.cycle.passes import Scheduler
    from reactors.scheduling.cycle.reservation_statuses import Wanted
    from reactors.scheduling.framework.bind_plugins import BindPlugins

#: Between two checks of the waiting pods.
LOOK_SECONDS = 1.0

#: Results, in the words of the history.
_RESULTS: dict[str, BindResult] = {"refused": "refused", "elsewhere": "stale", "gone": "gone"}


def effects(adapters: Adapters) -> EffectorTable:
    """The binder and the notices; both do nothing while the policy in force is not ``on``."""
    from reactors.effectors.evict import EvictEffector
    from reactors.engine.adapters import EffectorTable

    replica, clock = adapters.replica, adapters.clock
    placements = PlacementSource(replica, adapters.moves)
    notices = PodNotices(adapters.cluster, clock, instance=platform.node())
    binder = Binder(
        adapters.cluster, placements, partial(settle, adapters.transport, clock, replica.cluster),
        lambda one: announce_bound(notices, one),
    )  # fmt: skip
    statuses = ReservationStatuses(adapters.cluster, clock)
    return EffectorTable(
        {Evict.wire_type: EvictEffector(adapters.cluster)},
        beside=(
            binder.run, partial(telling, notices), partial(watching, placements, notices),
            partial(writing, statuses, placements.statuses),
        ),
        trouble=partial(trouble, binder, notices, placements, statuses),
    )  # fmt: skip


class PlacementSource:
    """Outstanding placements for the binder, and waiting pods; none while effects are not allowed."""

    def __init__(self, replica: Replica, moves: Moves) -> None:
        self._replica = replica
        self._moves = moves

    @property
    def position(self) -> int:
        """The newest event read."""
        return self._replica.sequence

    async def moved(self, seconds: float) -> None:
        """Return after new events, or after so long."""
        await self._moves.next(seconds)

    def decisions(self) -> Iterator[tuple[str, str]]:
        """Pod and decision of all outstanding placements, the oldest first."""
        if not self._replica.policies.is_paused:
            yield from ((one.uid, one.decision) for one in self._state.outstanding)

    def placement(self, uid: str) -> Placement | None:
        """The decided placement of a pod; None if none is outstanding, or effects are not allowed."""
        if self._replica.policies.is_paused:
            return None
        scheduler, pod = self._state.scheduler, self._replica.cluster_state.pods.get(uid)
        found = scheduler.assumed.get(uid) if scheduler is not None else None
        if scheduler is None or found is None or found.is_shadow or found.waits:
            return None
        rows = self._replica.cluster_state.reservations
        if uid in rows:
            return Placement(
                "", rows[uid].name, uid, found.node, found.decision, profile=found.profile, passed=found.passed,
                is_reservation=True, at_us=found.at_us,
            )  # fmt: skip
        if pod is None:
            return None
        return Placement(
            pod.namespace, pod.name, uid, found.node, found.decision, tuple(map(device_name, found.cards)),
            found.profile, found.passed, "" if found.cpus is None else msgspec.json.encode(found.cpus).decode(),
        )  # fmt: skip

    def statuses(self) -> Iterator[Wanted]:
        """The reservations with a status to write; none while effects are not allowed."""
        replica, scheduler = self._replica, self._state.scheduler
        current = replica.policies.of(NAME)
        if current is None or current.mode != "on" or replica.policies.is_paused or scheduler is None:  # fmt: skip
            return iter(())
        # The computing modules are imported where pods are placed.
        from reactors.scheduling.cycle.reservation_statuses import wanted

        state = replica.cluster_state
        # Times are those of ticks; a tick after a jump of the clock is held.
        now_us = replica.interlocks.ticked_us
        found = wanted(scheduler, state.pods, state.reservations, now_us)
        return (
            one for one in found if not (one.is_destructive and replica.interlocks.hold(now_us))
        )

    def overtaken(self, placement: Placement) -> str:
        """The reason why a pod must not be bound as decided; "" = it may."""
        current, scheduler = self._replica.policies.of(NAME), self._state.scheduler
        found = scheduler.assumed.get(placement.uid) if scheduler is not None else None
        if found is None:
            return "settled"
        if current is None or current.mode != "on":
            return "mode_changed"
        return self._state.overtaken(found)

    def binding(self, placement: Placement) -> tuple[BindPlugins, Known] | None:
        """The Bind plugins of a pod, and their input; None if the pod is unknown."""
        scheduler = self._state.scheduler
        found = scheduler.assumed.get(placement.uid) if scheduler is not None else None
        if scheduler is None or found is None:
            return None
        known = Known(
            scheduler.runners.pod(placement.uid),
            scheduler.columns,
            partial(self.annotations, placement),
        )
        return scheduler.runners.binders[found.profile], known

    def annotations(self, placement: Placement) -> dict[str, str]:
        """The plugins' annotations for a pod's binding."""
        scheduler = self._state.scheduler
        return scheduler.assumed_pods.annotations(placement.uid) if scheduler is not None else {}

    def waiting(self) -> dict[str, tuple[NoticedPod, str]]:
        """Every tried pod, and every pod never tried as it is, with the reason of its wait; by uid.

        The API server itself reports a pod with scheduling gates.
        """
        current, scheduler = self._replica.policies.of(NAME), self._state.scheduler
        if current is None or current.mode != "on" or scheduler is None:
            return {}
        return {
            one.pod.uid: (self._subject(scheduler, name, one.pod), one.reason)
            for name, queue in scheduler.queues.items()
            for one in queue
            # A reservation has its reason in its own status.
            if one.pod.uid in self._replica.cluster_state.pods
            and one.reason
            and not (one.place is Place.GATED and _has_gates(one.pod.constraints))
        }

    def late(self) -> list[str]:
        """NAMESPACE/NAME of the pods with a bind overdue for observation."""
        current, scheduler = self._replica.policies.of(NAME), self._state.scheduler
        if (
            current is None
            or current.mode != "on"
            or self._replica.policies.is_paused
            or scheduler is None
        ):
            return []
        # The computing modules are imported where pods are placed.
        from reactors.scheduling.cycle.claim_states import bindable_us

        pods, at_us = self._replica.cluster_state.pods, self._state.at_us
        outstanding = [one for one in scheduler.assumed_pods.outstanding() if one.uid in pods]
        late = [pods[one.uid] for one in outstanding if one.deadline_us <= at_us]
        volumes = scheduler.columns.volumes
        # A pod whose volume is being created is not bound yet.
        return [
            f"{pod.namespace}/{pod.name}"
            for pod in late
            if bindable_us(volumes, pod, at_us) + CONFIRMED_US <= at_us
        ]

    def _subject(self, scheduler: Scheduler, profile: str, pod: Pod) -> NoticedPod:
        nominated = scheduler.nominations.all.get(pod.uid)
        node = nominated.node if nominated is not None and nominated.is_making_room else ""
        return NoticedPod(pod.namespace, pod.name, pod.uid, profile, node)

    @property
    def _state(self) -> SchedulingState:
        state = self._replica.states[NAME]
        assert isinstance(state, SchedulingState)
        return state


def _has_gates(constraints: object) -> bool:
    return bool(getattr(constraints, "scheduling_gates", ()))


def subject(profile: str, namespace: str, name: str, uid: str) -> NoticedPod:
    """A pod for notices; its scheduler is its profile."""
    return NoticedPod(namespace, name, uid, profile)


def announce_bound(notices: PodNotices, placement: Placement) -> None:
    """Report a bound pod."""
    one = subject(placement.profile, placement.namespace, placement.name, placement.uid)
    notices.bound(one, placement.node)


async def watching(placements: PlacementSource, notices: PodNotices) -> None:
    """Hand on the waiting pods, for ever, after possible changes."""
    position = -1
    while True:
        if placements.position != position:
            position = placements.position
            notices.waits(placements.waiting())
        await asyncio.sleep(LOOK_SECONDS)


async def settle(
    transport: Transport,
    clock: Clock,
    cluster: str,
    found: Sequence[tuple[Placement, Outcomes]],
) -> None:
    """Publish the failed binds. A second publication counts once, as it names the pass."""
    by_profile: dict[str, list[FailedBind]] = {}
    for placement, one in found:
        by_profile.setdefault(placement.profile, []).append(
            FailedBind(
                placement.uid,
                placement.passed,
                _RESULTS.get(one.outcome, "lost"),
                one.message,
                placement.decision,
            )
        )
    events = []
    for profile, failed in by_profile.items():
        fact, now_us = BindSettled(failed=tuple(failed)), clock.now_us()
        # Two processes may find the same at the same time with other words.
        digest = hashlib.sha256(msgspec.json.encode((now_us, fact))).hexdigest()[:32]
        events.append(
            fact.event(
                cluster=cluster, key=profile, id=f"{fact.wire_type}/{digest}", source=f"effector/{NAME}",
                time_us=now_us,
            )
        )  # fmt: skip
    await transport.publish(events)


def trouble(
    binder: Binder, notices: PodNotices, placements: PlacementSource, statuses: ReservationStatuses
) -> Iterator[str]:
    """The obstacles to the scheduler's work now, in sentences with the API server's words."""
    if binder.trouble:
        yield f"pods are not bound, and tried again: {binder.trouble}"
    elif late := placements.late():
        yield (
            f"{len(late):,} pods have had a node for more than {CONFIRMED_US // SECOND_US // 60} minutes and are not observed"
            f" on it, the first one {late[0]}: is the watch of pods alive, and does the API server answer?"
        )
    if binder.failures:
        failed = list(binder.failures.values())
        yield f"the binds of {len(failed):,} pods fail, and are tried again: {failed[0]}"
    if notices.trouble:
        yield f"pods are not told why they wait: {notices.trouble}"
    if statuses.trouble:
        yield f"statuses of reservations are not written: {statuses.trouble}"

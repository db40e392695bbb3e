"""The recorded history of a cluster under another policy of the scheduler: reads the ledger, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bus.envelope import Event
from bus.errors import LedgerError
from bus.events.pods import PodObserved
from deploy.errors import SettingsError
from deploy.queries.lab import section_of
from projections.engine.segments.reading import event_at
from projections.pod_runs.queries import held_at
from projections.quota_trees.queries import Select, archived, facts
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.engine.snapshots import at
from reactors.lab.comparison import By, Comparison
from reactors.lab.placements import (
    PlacementChange,
    PlacementGroup,
    PlacementLab,
    PodLives,
    outcome,
)
from reactors.scheduling import NAME
from reactors.scheduling.settings import SchedulingPolicy, SchedulingSettings


def proposed_placements(path: Path) -> SchedulingPolicy:
    """The policy in a settings file, as `bursar up` would take it. Raises SettingsError naming file and line."""
    section = section_of(path, NAME, SchedulingSettings)
    policy = section.policy
    if policy.preemption == "shadow":
        # The question is about its effect when on.
        policy = policy.model_copy(update={"preemption": "on"})
    return policy


def tried_placements(
    select: Select, cluster: str, policies: Sequence[SchedulingPolicy], first: int, last: int, by: By,
) -> list[Comparison[PlacementChange, PlacementGroup]]:  # fmt: skip
    """Policies on the history after the event ``first`` up to ``last``. Raises SettingsError where no pod came in it."""
    begin, end = (event_at(select, one) if one else None for one in (first, last))
    if end is None or (first and begin is None):
        raise LedgerError("the archive has no such event: see `bursar verify`", sequence=last)
    known = at(select, REACTORS, cluster, first) if first else None
    opening = list(_opening(select, cluster, known, first)) if known is not None else []
    claims = known.cluster_state.claims.values() if known is not None else ()
    lives = PodLives(
        begin.time_us if begin is not None else 0, [(one.namespace, one.name) for one in claims]
    )
    for event in opening:
        lives.apply(PodObserved.read(event), event)
    types = [fact.wire_type for fact in PodLives.reads]
    for event, fact in facts(archived(select, cluster, types, after=first, until=last)):
        lives.apply(fact, event)
    if not lives.of:
        raise SettingsError(f"no pod came in the events {first + 1:,} to {last:,}")
    lives.last_us = end.time_us
    for life in lives.of.values():
        if life.bound_us and (held := held_at(select, life.uid, life.bound_us)) is not None:
            life.cpu_milli, life.gpu_milli = held
    lab = PlacementLab(cluster, policies, lives, known=known)
    lab.open(opening)
    for part in archived(select, cluster, lab.reads, after=first, until=last, apart=False):
        lab.play(part)
    return [outcome(played, lives.of.values(), by=by) for played in lab.end()]


def _opening(select: Select, cluster: str, known: Replica, until: int) -> Iterator[Event]:
    """The last observation of each waiting pod before an event."""
    waiting = [
        pod.uid for pod in known.cluster_state.pods.values() if not pod.node and not pod.is_ended
    ]
    for uid in waiting:
        newest = None
        for part in archived(select, cluster, (PodObserved.wire_type,), key=uid, until=until):
            newest = part[-1] if part else newest
        if newest is not None:
            yield newest

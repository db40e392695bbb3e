"""The recorded history of a cluster under another policy of evictions: reads the ledger, changes nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec

from bus.events.policies import Mode
from deploy.queries.lab import newest_pod, section_of
from projections.pod_runs.queries import held_at
from projections.quota_trees.queries import Select, archived
from reactors.catalogue import REACTORS
from reactors.engine.snapshots import at
from reactors.evictions import NAME
from reactors.evictions.settings import EvictionPolicy, EvictionSettings
from reactors.lab.comparison import By, Comparison
from reactors.lab.evictions import EvictionChange, EvictionGroup, EvictionTrial, outcome


class ProposedEvictions(msgspec.Struct, frozen=True):
    """A policy for a trial. ``mode`` off: it evicts nothing."""

    mode: Mode
    evictions: EvictionPolicy


def proposed_evictions(path: Path) -> ProposedEvictions:
    """The policy in a settings file, as `bursar up` would take it. Raises SettingsError naming file and line."""
    section = section_of(path, NAME, EvictionSettings)
    policy = section.policy
    if policy.preemption == "shadow":
        # It would be recorded alone.
        policy = policy.model_copy(update={"preemption": "off"})
    # A policy starts in shadow mode; the question is about its effect when on. Nothing is evicted here either.
    return ProposedEvictions("off" if section.mode == "off" else "shadow", policy)


def tried_evictions(
    select: Select, cluster: str, tried: ProposedEvictions, first: int, last: int, by: By,
) -> Comparison[EvictionChange, EvictionGroup]:  # fmt: skip
    """A policy on the history after the event ``first`` up to ``last``."""
    known = at(select, REACTORS, cluster, first) if first else None
    earlier = partial(newest_pod, select, cluster, until=first)
    trial = EvictionTrial(
        cluster, tried.mode, tried.evictions, earlier, known, partial(held_at, select)
    )
    for part in archived(select, cluster, trial.reads, after=first, until=last, apart=False):
        trial.play(part)
    return outcome(trial.end(), by=by)

"""Reasons why a due action is not done yet, a sentence for each token. Source: docs/culling.md, "Limits and interlocks"."""

from __future__ import annotations

from bus.clock import format_stamp
from reactors.engine.replica import Blocked

SENTENCES = {
    "paused": "reactors are paused; `bursar resume` lets them go on",
    "clock_jumped": "the clock jumped, or Bursar was away for more than a minute",
    "objects_lost": "a list was without more than a fifth of the objects that were known",
    "history_recovered": "the history was recovered",
    "blast_radius": "the limit of all stops and evictions in five minutes is reached",
    "per_minute": "its policy's limit of a minute is reached (pace.per_minute)",
    "per_namespace": "its namespace's limit of five minutes is reached (pace.per_namespace)",
    "per_node": "its node's limit of five minutes is reached (pace.per_node)",
    "per_workload": "its workload's limit of five minutes is reached (pace.per_workload)",
    "evidence_old": "the evidence is too old",
    "no_fresh_evidence": "no fresh activity data (retrying)",
    "outstanding": "what was decided before is not done yet",
    "refused": "it was refused, and rests",
    "pod_unknown": "its pod was not observed yet",
    "pod_migrating": "another PodMigrationJob moves its pod",
    "pod_ending": "its pod was evicted and still ends",
    "pod_pending": "its pod waits for a node",
    "new_pod": "the new pod has not taken the reservation yet",
    "max_migrating_globally": "as many pods move as the cluster allows (max_migrating_globally)",
    "max_migrating_per_node": "as many pods of its node move as allowed (max_migrating_per_node)",
    "max_migrating_per_namespace": "as many pods of its namespace move as allowed (max_migrating_per_namespace)",
    "max_migrating_per_workload": "as many pods of its workload move as allowed (max_migrating_per_workload)",
    "max_unavailable_per_workload": "too many pods of its workload move or are unavailable (max_unavailable_per_workload)",
    "workload_rolls_out": "its workload rolls out",
    "workload_scales": "its workload has more or fewer pods than replicas",
    "workload_unknown": "the replicas of its workload are unknown",
    "controller_unknown": "the pod's controller was not observed yet",
    "reservation_pending": "its reservation has no node yet",
    "reservation_missing": "its reservation is gone; the job ends by its ttl",
    "reservation_unavailable": "its reservation is not Available on another node",
    "reservation_refused": "the API server refused its reservation, and it is tried again",
    "eviction_refused": "the API server refused the eviction, and it is tried again",
    "no_target": "what controls the pod was not seen, cannot be stopped, or has other pods",
}

_VERBS = {
    "decision.warn": "warning",
    "decision.withdraw": "withdrawal of the warning",
    "decision.cull": "stop",
    "decision.evict": "eviction",
    "decision.restore": "restore",
    "decision.report_migration": "migration",
}


def explained(one: Blocked) -> str:
    """The due action, its obstacle, and the end of that: one sentence."""
    verb = _VERBS.get(one.decision.wire_type, one.decision.wire_type)
    until = f", until {format_stamp(one.until_us)}" if one.until_us else ""
    return f"{verb} delayed: {sentence(one.reason)}{until}"


def short(one: Blocked) -> str:
    """The token of its obstacle, and the time of day (UTC) of its end: for a column."""
    until = f" until {format_stamp(one.until_us)[11:16]}Z" if one.until_us else ""
    return f"{one.reason.replace('_', ' ')}{until}"


def sentence(reason: str) -> str:
    """The meaning of a token."""
    return SENTENCES.get(reason, reason.replace("_", " "))

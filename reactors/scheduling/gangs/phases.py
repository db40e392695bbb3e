"""The phase of a PodGroup, as written by Koordinator's controller. Pure.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/controller; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Collection

PENDING, PRE_SCHEDULING, SCHEDULING, SCHEDULED = "Pending", "PreScheduling", "Scheduling", "Scheduled"  # fmt: skip
RUNNING, FINISHED, FAILED = "Running", "Finished", "Failed"
FINAL = (FINISHED, FAILED)
#: Age of a PodGroup from which the controller ignores it, in hours.
OLDEST = 48
#: Most phases passed in a row.
_STEPS = 8


def after(phase: str, least: int, pods: Collection[str], scheduled: int, age_hours: int = 0) -> str:
    """The phase after one more check. ``pods``: the phases of its pods; ``scheduled``: the number of them with a node."""
    if phase in FINAL or age_hours > OLDEST:
        return phase
    if not phase or not pods:
        return PENDING
    if phase == PENDING:
        return PRE_SCHEDULING if len(pods) >= least else PENDING
    running, succeeded, failed = (
        sum(one == kind for one in pods) for kind in ("Running", "Succeeded", "Failed")
    )
    if phase in (PRE_SCHEDULING, SCHEDULING):
        phase = bound(phase, least, scheduled)
    if phase == SCHEDULED and running + succeeded >= least:
        phase = RUNNING
    if failed and failed + running + succeeded >= least:
        return FAILED
    return FINISHED if succeeded >= least else phase


def bound(phase: str, least: int, scheduled: int) -> str:
    """The phase after a bind, with so many pods on nodes."""
    if scheduled >= least:
        return SCHEDULED
    return SCHEDULING if scheduled else phase


def settled(phase: str, least: int, pods: Collection[str], scheduled: int) -> str:
    """The final phase after repeated checks."""
    for _ in range(_STEPS):
        later = after(phase, least, pods, scheduled)
        if later == phase:
            break
        phase = later
    return phase

"""The order of attempts at waiting PodMigrationJobs. Pure.

Pods in the order of evictions; of equal pods the newest PodMigrationJob first. Pods of one Job stand together at the place of its
first, and those of Jobs with more running migrations stand before all others.

Source: koordinator-sh/koordinator, pkg/descheduler/controllers/migration/arbitrator/sort.go; docs/migration.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from projections.cluster import Pod
from reactors.migration.eligibility import evictable
from reactors.migration.order import place
from reactors.migration.shape import MigrationJob

_JOB = "Job"


class Waiting(msgspec.Struct, frozen=True):
    """A waiting job and its pod; None = the job names no existing pod."""

    job: MigrationJob
    pod: Pod | None


def ordered(waiting: Iterable[Waiting], running: Mapping[str, int]) -> list[Waiting]:
    """The jobs in the order of their attempts. ``running``: running migrations, by the uid of the pods' controller."""
    found = sorted(waiting, key=lambda one: (-one.job.created_us, one.job.uid))
    found.sort(key=_pod)
    first: dict[str, int] = {}
    for number, one in enumerate(found):
        first.setdefault(_owner(one) or one.job.uid, number)
    found.sort(key=lambda one: first[_owner(one) or one.job.uid])
    return sorted(found, key=lambda one: -running.get(_owner(one), 0))


def _pod(one: Waiting) -> tuple[int | str, ...]:
    # The name is left out: of equal pods the jobs decide.
    return () if one.pod is None else place(evictable(one.pod))[:-2]


def _owner(one: Waiting) -> str:
    owner = one.pod.owner if one.pod is not None else None
    return owner.uid if owner is not None and owner.kind == _JOB else ""

"""Nodes with more failing training jobs than others.

The comparison counts jobs, not pods: a job that fails on a node counts once there, however often it restarts, so no crash
loop marks a node. Only the last :data:`DAYS` days count, so a repaired node is forgotten.

A node is an outlier if all of this holds (:attr:`NodeFailures.is_outlier`):

- at least :data:`LEAST_JOBS` jobs failed on it,
- the failed share of its jobs is at least :data:`TIMES` times the share on the other nodes of its cluster,
- random failures would reach so many on any one node with a chance below :data:`CHANCE`
  (Fisher's exact test, times the number of nodes). So few jobs prove nothing, and bad luck marks none of
  many nodes.

Source: docs/jobs.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.clock import SECOND_US, format_stamp
from projections.quota_trees.queries import Select

#: Days of counted attempts, by their end.
DAYS = 30
LEAST_JOBS = 3
TIMES = 2
CHANCE = 0.01

_ATTEMPTS = sa.table(
    "v1_attempts",
    *(
        sa.column(name, sa.Text)
        for name in ("cluster", "namespace", "job_uid", "node", "start_at", "end_at")
    ),
    sa.column("is_failed", sa.BigInteger),
)


class NodeFailures(msgspec.Struct, frozen=True):
    """Training jobs on one node in the counted days, and on the other nodes of its cluster.

    ``attempts`` are pods, ``failures`` the failed ones, ``namespaces`` those of the ``failed_jobs``. A job on several
    of the other nodes counts as several ``other_jobs``. ``nodes``: the number of nodes with jobs in the cluster.
    """

    cluster: str
    node: str
    attempts: int
    failures: int
    jobs: int
    failed_jobs: int
    namespaces: int
    other_jobs: int = 0
    other_failed_jobs: int = 0
    nodes: int = 1

    @property
    def failed_ratio(self) -> float:
        """The failed share of its jobs, 0 to 1."""
        return self.failed_jobs / self.jobs

    @property
    def other_ratio(self) -> float | None:
        """The share on the other nodes; None where they had no jobs."""
        return self.other_failed_jobs / self.other_jobs if self.other_jobs else None

    @property
    def is_outlier(self) -> bool:
        """Whether more of its jobs fail than chance and the other nodes explain."""
        jobs, failed = self.jobs + self.other_jobs, self.failed_jobs + self.other_failed_jobs
        return (
            self.failed_jobs >= LEAST_JOBS
            and self.failed_ratio >= TIMES * (self.other_ratio or 0)
            and tail(self.failed_jobs, self.jobs, failed, jobs) * self.nodes < CHANCE
        )

    @property
    def sentence(self) -> str:
        """The finding as a sentence."""
        text = f"{self.failed_jobs:,} of {self.jobs:,} jobs failed on it in {DAYS} days"
        where = f"of {self.namespaces:,} namespace{'' if self.namespaces == 1 else 's'}"
        others = f"on the other nodes {self.other_failed_jobs:,} of {self.other_jobs:,}"
        times = ""
        if self.other_ratio:
            times = f", {self.failed_ratio / self.other_ratio:,.1f} times as often"
        return f"{text} ({where}), {others}{times}"


def tail(least: int, drawn: int, failed: int, total: int) -> float:
    """The chance of at least ``least`` of the ``failed`` jobs among ``drawn`` out of ``total`` ones: hypergeometric."""
    least = max(least, drawn + failed - total)
    if least <= 0:
        return 1.0
    every = _log_choices(total, drawn)
    logs = (
        _log_choices(failed, n) + _log_choices(total - failed, drawn - n) - every
        for n in range(least, min(drawn, failed) + 1)
    )
    return min(1.0, math.fsum(map(math.exp, logs)))


def _log_choices(all_: int, chosen: int) -> float:
    """The logarithm of the number of ways to choose so many out of all."""
    return math.lgamma(all_ + 1) - math.lgamma(chosen + 1) - math.lgamma(all_ - chosen + 1)


def failures(
    select: Select, now_s: int, namespace: str | None = None, cluster: str | None = None
) -> list[NodeFailures]:
    """Every node with pods of training jobs in the days before a second, by cluster and name; limited to one namespace or one
    cluster, if given.
    """
    seen = _ATTEMPTS.c
    since = format_stamp(max(0, now_s - DAYS * 86_400) * SECOND_US)
    failed_job = sa.case((seen.is_failed == 1, seen.job_uid))
    query = (
        sa.select(
            seen.cluster, seen.node, sa.func.count(), sa.func.sum(seen.is_failed),
            sa.func.count(seen.job_uid.distinct()), sa.func.count(failed_job.distinct()),
            sa.func.count(sa.case((seen.is_failed == 1, seen.namespace)).distinct()),
        )
        .where(
            seen.node != "", seen.start_at.is_not(None),
            sa.or_(seen.end_at.is_(None), seen.end_at >= since),
        )
        .group_by(seen.cluster, seen.node)
        .order_by(seen.cluster, seen.node)
    )  # fmt: skip
    if namespace is not None:
        query = query.where(seen.namespace == namespace)
    if cluster is not None:
        query = query.where(seen.cluster == cluster)
    return compared(
        [NodeFailures(cluster, node, *map(int, rest)) for cluster, node, *rest in select(query)]
    )


def compared(found: Sequence[NodeFailures]) -> list[NodeFailures]:
    """Each node beside the others of its cluster. Pure."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in found:
        for place, count in enumerate((one.jobs, one.failed_jobs, 1)):
            sums[one.cluster][place] += count
    return [_beside(one, *sums[one.cluster]) for one in found]


def _beside(one: NodeFailures, jobs: int, failed: int, nodes: int) -> NodeFailures:
    return msgspec.structs.replace(
        one, other_jobs=jobs - one.jobs, other_failed_jobs=failed - one.failed_jobs, nodes=nodes
    )


def notes(found: Sequence[NodeFailures]) -> list[str]:
    """A line for each outlier; empty without one."""
    clusters: set[Any] = {one.cluster for one in found}
    return [
        f"node {one.node}{f' of {one.cluster}' if len(clusters) > 1 else ''}: {one.sentence}"
        for one in found
        if one.is_outlier
    ]

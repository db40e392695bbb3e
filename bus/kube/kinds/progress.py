"""Reads the pods a workload's controller can still make from its status. Pure.

Only users with the right to a status subresource write it, and ``edit`` grants none. An exaggerated status frees no
pod: each pod is checked below its owner, and no charge falls below the existing pods.

Source: Kubernetes v1.36.3 ``pkg/controller/job`` (``manageJob``, ``parseIndexesFromString``); JobSet ``failure_policy.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from bus.kube.kinds import paths
from bus.kube.kinds.paths import count, find, one, text

#: Longest list of indexes: an object of etcd has at most 1.5 MiB.
LONGEST_INDEXES = 2 * 1024 * 1024
#: Statuses read for each replicated Job of a JobSet, limited to ``MOST_SETS``.
MOST_STATUSES = 64


def pods_left(object: Mapping[str, Any], spec: Any, pods: int) -> int:
    """Of a Job. Raises DemandError."""
    completions = count(spec, "completions", "spec", default=-1)
    if completions < 0:
        # After the first success, running pods are left to run.
        is_begun = count(object, "status.succeeded", default=0) > 0
        return min(pods, count(object, "status.active", default=0)) if is_begun else pods
    return max(min(pods, completions - _finished(object, spec, completions)), 0)


def _finished(object: Mapping[str, Any], spec: Any, completions: int) -> int:
    if text(spec, "completionMode", "spec") != "Indexed":
        return count(object, "status.succeeded", default=0)
    indexes = [*_indexes(object, "status.completedIndexes", completions)]
    if one(spec, "backoffLimitPerIndex", "spec") is not None:
        indexes += _indexes(object, "status.failedIndexes", completions)
    total, next_index = 0, 0
    for first, last in sorted(indexes):
        total += max(last + 1 - max(first, next_index), 0)
        next_index = max(next_index, last + 1)
    return total


def _indexes(object: Mapping[str, Any], path: str, completions: int) -> Iterator[tuple[int, int]]:
    """The intervals of a list such as ``1,3-5``. Like the controller, it skips invalid parts."""
    for interval in text(object, path, most=LONGEST_INDEXES).split(","):
        first, _, last = interval.partition("-")
        if _is_index(first) and _is_index(last or first):
            yield int(first), min(int(last or first), completions - 1)


def _is_index(written: str) -> bool:
    return (
        written.isascii() and written.isdecimal() and len(written) <= len(str(paths.MOST_REPLICAS))
    )


def jobs_left(object: Mapping[str, Any], replicated: Any, pods: int) -> int:
    """Of one replicated Job of a JobSet. Raises DemandError."""
    jobs = count(replicated, "replicas", default=1)
    if not jobs or one(object, "spec.failurePolicy") is not None:
        return pods
    name = text(replicated, "name")
    for at, status in islice(find(object, "status.replicatedJobsStatus.*"), MOST_STATUSES):
        if text(status, "name", at) == name:
            return pods // jobs * max(jobs - count(status, "succeeded", at, default=0), 0)
    return pods

"""The pods and services of one replica type: missing ones, surplus ones, and pods to replace. Pure.

A slot is a type and an index. What the training operator does otherwise than Bursar's own rules, and is repeated under its
rules only: a slot is made beyond the number of replicas where an index below a higher one is free, and for none at all;
what is out of range is still evaluated.

Source: Kubeflow training-operator v1, ``pkg/controller.v1/common/pod.go`` and ``service.go``; docs/jobs.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from bus.events.workloads import ReplicaCounts, ReplicaSpec
from reactors.jobs.shape import Job, Rules, SeenPod, SeenService, Slot

One = TypeVar("One", SeenPod, SeenService)

#: Longest index and longest attempt that are read: users write labels and names.
LONGEST_INDEX = 4
LONGEST_ATTEMPT = 6

#: What a service can be called: a label of RFC 1035.
_LABEL = re.compile("[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")

#: The policy of pods whose exit code decides, and the lowest code after which they are replaced.
EXIT_CODE = "ExitCode"
RETRYABLE = 128


class Replicas(msgspec.Struct):
    """The results for one type."""

    type: str
    counts: ReplicaCounts
    missing: list[Slot]
    surplus: list[SeenPod]
    #: Pods of a slot that a later attempt has, too.
    doubled: list[SeenPod]
    #: Failed pods that are replaced, and those whose exit code says that they never succeed.
    failed: list[SeenPod]
    is_lost: list[SeenPod]
    #: Pods whose container ended.
    ended: list[SeenPod]
    #: The conditions that failed pods set, in the order of their indices: after ``Failed`` nothing changes any more.
    conditions: list[str]


def is_retryable(exit_code: int | None) -> bool:
    """Whether a pod with such an exit code is replaced: also where its container says none, as of an evicted pod."""
    return exit_code is None or exit_code >= RETRYABLE


def replica_name(job: str, type: str, index: int | str) -> str:
    """The name of a pod and of its service."""
    return f"{job}-{type.lower()}-{index}".replace("/", "-")


def unnameable(job: Job) -> str:
    """Why pods and services of a job cannot have their names, ``invalid_name`` or ``doubled_type``; "" = they can."""
    # Decisions carry these names: what no API server takes must not come into the history.
    last = [replica_name(job.name, type, max(spec.count, 1) - 1) for type, spec in job.types]
    if not all(map(_LABEL.fullmatch, last)):
        return "invalid_name"
    types = {replica_name("", type, "") for type, _ in job.types}
    return "" if len(types) == len(last) else "doubled_type"


def attempt_of(name: str, slot: str) -> int:
    """Which attempt at ``slot`` the pod of this name is; 0 = its name is that of none."""
    rest = name.removeprefix(f"{slot}-")
    is_number = rest.isascii() and rest.isdigit() and len(rest) <= LONGEST_ATTEMPT
    return int(rest) if is_number and rest != name else 0


def slots(indices: Iterable[int], count: int, rules: Rules) -> int:
    """How many slots are looked at."""
    return max([*(index + 1 for index in indices), count, int(rules.is_v1)])


def _looked_at(job: Job, indices: Iterable[int], count: int, rules: Rules) -> Iterable[int]:
    """The slots by index; of a job that is too large those that have something: none is missing."""
    return sorted(indices) if job.is_too_large else range(slots(indices, count, rules))


def evaluated(
    job: Job, type: str, spec: ReplicaSpec, pods: Sequence[SeenPod], rules: Rules
) -> Replicas:
    """The pods of one type. Two of one index are left alone, but where both are attempts at one slot: then the later counts."""
    places = _by_index(type, pods)
    found = Replicas(type, ReplicaCounts(), [], [], [], [], [], [], [])
    policy = job.policy(spec)
    active = succeeded = failed = 0
    for index in _looked_at(job, places, spec.count, rules):
        those = places.get(index, [])
        if not those and (index < spec.count or rules.is_v1):
            found.missing.append(Slot(type, index, replica_name(job.name, type, index)))
        if len(those) > 1 and not rules.is_v1 and all(one.attempt for one in those):
            *doubled, last = sorted(those, key=lambda one: one.attempt)
            found.doubled += doubled
            those = [last]
        if len(those) != 1:
            continue
        (pod,) = those
        if index >= spec.count:
            found.surplus.append(pod)
            if not rules.is_v1:
                continue
        if pod.exit_code is not None:
            found.ended.append(pod)
        if pod.phase == "Failed":
            if policy == EXIT_CODE and not is_retryable(pod.exit_code):
                found.is_lost.append(pod)
                found.conditions.append("Failed")
            elif policy != "Never":
                found.failed.append(pod)
                found.conditions.append("Restarting")
        is_ending = pod.phase == "Running" and pod.is_deleting
        # Under its own rules a pod that ends and is replaced has not failed.
        is_counted = rules.is_v1 or policy == "Never"
        active += pod.phase == "Running" and not pod.is_deleting
        succeeded += pod.phase == "Succeeded"
        failed += pod.phase == "Failed" or (is_ending and is_counted)
    found.counts = ReplicaCounts(active, succeeded, failed)
    return found


def services(
    job: Job, type: str, count: int, seen: Sequence[SeenService], rules: Rules
) -> tuple[list[Slot], list[str]]:
    """The services of one type that are missing, and the names of those that are too many."""
    places = _by_index(type, seen)
    missing, surplus = [], []
    for index in _looked_at(job, places, count, rules):
        those = places.get(index, [])
        if not those and (index < count or rules.is_v1):
            missing.append(Slot(type, index, replica_name(job.name, type, index)))
        elif len(those) == 1 and index >= count:
            surplus.append(those[0].name)
    return missing, surplus


def _by_index(type: str, seen: Sequence[One]) -> dict[int, list[One]]:
    """By index; what has no index, or no number for one, is no replica."""
    found: dict[int, list[One]] = {}
    for one in seen:
        if one.type != type.lower() or len(one.index) > LONGEST_INDEX:
            continue
        if one.index.isascii() and one.index.isdigit():
            found.setdefault(int(one.index), []).append(one)
    return found

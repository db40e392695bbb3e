"""The pods and services of one replica type: missing ones, surplus ones, and pods to replace. Pure.

A slot is a type and an index. Some behavior of the training operator differs from Bursar's own rules, and is repeated under its
rules only: it makes a slot beyond the number of replicas if an index below a higher one is free, and for zero replicas;
out-of-range slots are still evaluated.

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

#: The form of a service's name: a label of RFC 1035.
_LABEL = re.compile("[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")

#: The restart policy by exit code, and the lowest code of a replacement.
EXIT_CODE = "ExitCode"
RETRYABLE = 128


class Replicas(msgspec.Struct):
    """The results for one type."""

    type: str
    counts: ReplicaCounts
    missing: list[Slot]
    surplus: list[SeenPod]
    #: Pods of a slot with a later attempt.
    doubled: list[SeenPod]
    #: Failed pods to replace, and those with an exit code of permanent failure.
    failed: list[SeenPod]
    is_lost: list[SeenPod]
    #: Pods with an ended container.
    ended: list[SeenPod]
    #: The conditions set by failed pods, in the order of their indices: after ``Failed`` nothing changes any more.
    conditions: list[str]


def is_retryable(exit_code: int | None) -> bool:
    """Whether a pod with such an exit code is replaced: also where its container says none, as of an evicted pod."""
    return exit_code is None or exit_code >= RETRYABLE


def replica_name(job: str, type: str, index: int | str) -> str:
    """The name of a pod and of its service."""
    return f"{job}-{type.lower()}-{index}".replace("/", "-")


def unnameable(job: Job) -> str:
    """Why pods and services of a job cannot have their names, ``invalid_name`` or ``doubled_type``; "" = they can."""
    # Decisions carry these names. A name invalid for the API server must not come into the history.
    last = [replica_name(job.name, type, max(spec.count, 1) - 1) for type, spec in job.types]
    if not all(map(_LABEL.fullmatch, last)):
        return "invalid_name"
    types = {replica_name("", type, "") for type, _ in job.types}
    return "" if len(types) == len(last) else "doubled_type"


def attempt_of(name: str, slot: str) -> int:
    """The attempt at ``slot`` of the pod with this name; 0 = the name has no attempt."""
    rest = name.removeprefix(f"{slot}-")
    is_number = rest.isascii() and rest.isdigit() and len(rest) <= LONGEST_ATTEMPT
    return int(rest) if is_number and rest != name else 0


def slots(indices: Iterable[int], count: int, rules: Rules) -> int:
    """How many slots are looked at."""
    return max([*(index + 1 for index in indices), count, int(rules.is_v1)])


def _looked_at(job: Job, indices: Iterable[int], count: int, rules: Rules) -> Iterable[int]:
    """The slots by index; of a too large job only the occupied ones: it misses none."""
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
        # Under its own rules a replaced pod that ended has not failed.
        is_counted = rules.is_v1 or policy == "Never"
        active += pod.phase == "Running" and not pod.is_deleting
        succeeded += pod.phase == "Succeeded"
        failed += pod.phase == "Failed" or (is_ending and is_counted)
    found.counts = ReplicaCounts(active, succeeded, failed)
    return found


def services(
    job: Job, type: str, count: int, seen: Sequence[SeenService], rules: Rules
) -> tuple[list[Slot], list[str]]:
    """The missing services of one type, and the names of its surplus ones."""
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
    """Objects by index; one without a valid index is no replica."""
    found: dict[int, list[One]] = {}
    for one in seen:
        if one.type != type.lower() or len(one.index) > LONGEST_INDEX:
            continue
        if one.index.isascii() and one.index.isdigit():
            found.setdefault(int(one.index), []).append(one)
    return found

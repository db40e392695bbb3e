"""NodeResourcesFit: a node needs room for the pod's request; the policy's strategy scores its fill.

Overhead is part of a pod's request. A node without a limit of pods takes any number.

Source: Kubernetes, "Scheduler Configuration", NodeResourcesFitArgs; "Resource Bin Packing".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Literal

import msgspec
import numpy as np

from bus.kube.crds.keys import resource_text
from reactors.scheduling.columns.table import CPU, MEMORY, STORAGE, Ints, Rows
from reactors.scheduling.framework.contract import HIGHEST, ONE_CHANGE, Cycle, Refused
from reactors.scheduling.queueing.hints import Hint

TOO_MANY = "Too many pods"


class ScoredResource(msgspec.Struct, frozen=True):
    """A scored resource, and its weight."""

    name: str
    weight: int = 1


class Point(msgspec.Struct, frozen=True):
    """A point of the shape: at this utilization, in percent, this score of 0 to 10."""

    utilization: int
    score: int


class NodeResourcesFit(msgspec.Struct, frozen=True):
    """Refuses nodes without room. ``shape`` is for RequestedToCapacityRatio, points by rising utilization."""

    name: ClassVar[str] = "NodeResourcesFit"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE})

    strategy: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = (
        "LeastAllocated"
    )
    resources: tuple[ScoredResource, ...] = (ScoredResource("cpu"), ScoredResource("memory"))
    shape: tuple[Point, ...] = (Point(0, 0), Point(100, 10))
    #: Ignored extended resources, by name; the node decides.
    ignored: frozenset[str] = frozenset()

    def key(self, cycle: Cycle) -> Hashable:
        """The DeviceClasses serving the pod's requests."""
        return tuple(sorted(cycle.columns.facts.served(cycle.pod).items()))

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without enough of a resource."""
        columns, refused = cycle.columns, []
        served = columns.facts.served(cycle.pod)
        full = columns.pods[rows] >= columns.most_pods[rows]
        if full.any():
            refused.append(Refused(TOO_MANY, full))
        for name, at in columns.resources.names.items():
            amount = cycle.request[at]
            if not amount or name in self.ignored:
                continue
            lacking = columns.resources.free[rows, at] < amount
            if name in served:
                # As in kube-scheduler: resources of a node's device plugin need no claim.
                by_claim = columns.resources.allocatable[rows, at] == 0
                lacking &= ~by_claim
                if by_claim.any():
                    refused.append(Refused(by_class(name, served[name]), by_claim, by_claim))
            if lacking.any():
                never = columns.resources.allocatable[rows, at] < amount
                refused.append(Refused(f"Insufficient {name}", lacking, never))
        everywhere = np.ones(full.size, np.bool_)
        refused += [
            Refused(
                by_class(name, served[name]) if name in served else f"Insufficient {name}",
                everywhere,
                everywhere,
            )
            for name in self._not_offered(cycle)
        ]
        return refused

    def distance(self, cycle: Cycle) -> Ints:
        """The missing part, in thousandths of the request, over all resources."""
        columns = cycle.columns
        lacking = np.where(columns.pods >= columns.most_pods, ONE_CHANGE, 0)
        for name, at in columns.resources.names.items():
            amount = int(cycle.request[at])
            if amount and name not in self.ignored:
                left = np.maximum(columns.resources.free[:, at], 0)
                lacking += np.maximum(amount - left, 0) // -(-amount // ONE_CHANGE)
        return lacking + ONE_CHANGE * len(self._not_offered(cycle))

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Request only the room left on the node, or wait for the missing part."""
        columns, changes = cycle.columns, []
        served = columns.facts.served(cycle.pod)
        if columns.pods[row] >= columns.most_pods[row]:
            changes.append(f"end a pod of node {columns.names[row]}")
        for name, at in columns.resources.names.items():
            amount, free = int(cycle.request[at]), int(columns.resources.free[row, at])
            if (
                name in served
                and amount
                and not columns.resources.allocatable[row, at]
                and name not in self.ignored
            ):
                changes.append(_other_scheduler(served[name]))
            elif amount and free < amount and name not in self.ignored:
                asked = resource_text(name, amount)
                less = f"request {resource_text(name, free)} of {name}, not {asked}"
                changes.append(less if free > 0 else f"free {asked} of {name}")
        changes += [
            _other_scheduler(served[name])
            if name in served
            else f"free {resource_text(name, amount)} of {name}"
            for name, amount in self._not_offered(cycle).items()
        ]
        return " and ".join(changes)

    def _not_offered(self, cycle: Cycle) -> dict[str, int]:
        found = cycle.columns.resources.requests.of(cycle.pod).not_offered
        return {name: amount for name, amount in found.items() if name not in self.ignored}

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The fill of the resources with the pod, 0 to 100."""
        scorer = _SCORERS.get(self.strategy, self._by_shape)
        is_ratio = self.strategy == "RequestedToCapacityRatio"
        total = np.zeros(cycle.columns.pods[rows].size, np.int64)
        weights: Ints | int = 0
        for one in self.resources:
            found = _filled(cycle, one.name, rows)
            if found is None:
                continue
            requested, capacity = found
            if not is_ratio and capacity.all():
                # The computation below, without the extra work for nodes without a resource: with few nodes the overhead
                # dominates.
                total = total + scorer(requested, capacity) * one.weight
                weights = weights + one.weight
                continue
            scores = np.where(capacity > 0, scorer(requested, np.maximum(capacity, 1)), 0)
            counts = scores > 0 if is_ratio else capacity > 0
            total = total + scores * one.weight
            weights = weights + counts * one.weight
        if is_ratio:
            # Half away from zero, in integers.
            return (2 * total + weights) // np.maximum(2 * weights, 1)
        return total // np.maximum(weights, 1)

    def _by_shape(self, requested: Ints, capacity: Ints) -> Ints:
        percent = np.where(requested > capacity, 100, requested * 100 // capacity)
        scores = np.full(percent.size, self.shape[-1].score * 10, np.int64)
        for at in range(len(self.shape) - 1, -1, -1):
            point = self.shape[at]
            reached = percent <= point.utilization
            if at == 0:
                scores[reached] = point.score * 10
                continue
            before = self.shape[at - 1]
            rise, width = (
                (point.score - before.score) * 10,
                point.utilization - before.utilization,
            )
            # Rounded towards zero, as in Go.
            gained = np.abs(rise) * (percent - before.utilization) // width * np.sign(rise)
            scores[reached] = (before.score * 10 + gained)[reached]
        return scores


def by_class(resource: str, device_class: str) -> str:
    """The reason of a node's refusal if a claim would have to give the devices."""
    return (
        f"node(s) without a device plugin for {resource}: DeviceClass {device_class} serves it, whose devices"
        " kube-scheduler alone allocates"
    )


def _other_scheduler(device_class: str) -> str:
    return f"let the pod name kube-scheduler, which allocates devices of DeviceClass {device_class}"


def _filled(cycle: Cycle, name: str, rows: Rows) -> tuple[Ints, Ints] | None:
    """(requested with the pod, capacity) of a resource on each node; None if the pod does not request it."""
    columns = cycle.columns
    at = columns.resources.names.get(name)
    if at is None or (at > STORAGE and not cycle.request[at]):
        return None
    capacity = columns.resources.allocatable[rows, at]
    if at in (CPU, MEMORY):
        unrequested = (cycle.pod.unrequested or (0, 0))[at]
        requested = columns.resources.nonzero[rows, at] + (cycle.request[at] + unrequested)
    else:
        requested = capacity - columns.resources.free[rows, at] + cycle.request[at]
    return requested, capacity


def _least(requested: Ints, capacity: Ints) -> Ints:
    return np.where(requested > capacity, 0, (capacity - requested) * HIGHEST // capacity)


def _most(requested: Ints, capacity: Ints) -> Ints:
    return np.minimum(requested, capacity) * HIGHEST // capacity


_SCORERS: dict[str, Callable[[Ints, Ints], Ints]] = {
    "LeastAllocated": _least,
    "MostAllocated": _most,
}

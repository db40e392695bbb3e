"""Hints: kinds of changes possibly helpful to a pod without a node. Plugins name them, changes of the cluster give them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from bus.events.constraints import HeldCpus
from projections.cluster import Change, Pod
from projections.cluster.devices import NodeDevices, Scv
from projections.cluster.loads import NodeLoad, NodeTopology
from projections.cluster.rows import Node
from projections.cluster.volumes import CsiNode, Pvc, StorageClass, Volume


class Hint(Enum):
    """A kind of change."""

    #: A node came, or its resources, rules or names changed.
    NODE = "a node"
    #: A pod released its part of a node.
    GONE = "a pod that ends"
    #: A pod holds a part of a node from now on, or has other labels.
    PLACED = "a pod that is placed"
    #: One of the pod's own claims came or was changed.
    CLAIM = "a claim of the pod"
    #: A volume, a storage class or a node's attachment limit came, changed or is gone.
    VOLUME = "a volume"
    #: The measured use of a node came, changed or is gone.
    LOAD = "a node's load"
    #: The report of a node's CPU topology, or of its reserved CPUs, changed.
    CPUS = "a node's CPUs"
    #: A journal of quotas has another entry, or the workload or the quota of pods is better known.
    QUOTA = "its quota"


def hints_of(change: Change) -> Iterator[Hint]:
    """The hints of a change of the cluster, for waiting pods."""
    before, after = change.before, change.after
    if isinstance(after, Node):
        if not isinstance(before, Node) or _offer(before) != _offer(after):
            yield Hint.NODE
        return
    if isinstance(after, Pvc):
        yield Hint.CLAIM
        return
    if isinstance(before if after is None else after, Volume | StorageClass | CsiNode):
        yield Hint.VOLUME
        return
    if isinstance(before if after is None else after, NodeLoad):
        yield Hint.LOAD
        return
    newest = before if after is None else after
    if isinstance(newest, NodeTopology):
        # Node agents write the object again at every start of a pod.
        if _layout(before) != _layout(after):
            yield Hint.CPUS
        return
    if isinstance(newest, NodeDevices):
        if _found(before) != _found(after):
            yield Hint.NODE
        return
    if isinstance(after, Scv):
        yield Hint.NODE
        return
    held = before if isinstance(before, Pod) and _holds(before) else None
    holds = after if isinstance(after, Pod) and _holds(after) else None
    if held is not None and (holds is None or _shrank(held, holds)):
        yield Hint.GONE
    if holds is not None and (held is None or held.labels != holds.labels):
        yield Hint.PLACED


def _holds(pod: Pod) -> bool:
    return bool(pod.node) and not pod.is_ended


def _offer(node: Node) -> tuple[object, ...]:
    return (
        node.allocatable, node.labels, node.further_labels, node.taints, node.unschedulable,
        node.is_cut, node.model,
    )  # fmt: skip


def _layout(row: object) -> tuple[object, ...]:
    if not isinstance(row, NodeTopology):
        return ()
    return row.cpus, row.reserved, row.held, row.full_only, row.policy, row.zones


def _found(row: object) -> tuple[object, ...]:
    return (row.devices, row.partitions) if isinstance(row, NodeDevices) else ()


def _cpus(pod: Pod) -> HeldCpus | None:
    found = pod.constraints.cpus if pod.constraints is not None else None
    return found.holds if found is not None else None


def _shrank(before: Pod, after: Pod) -> bool:
    """Whether a pod ends, holds less than before, or is on another node."""
    if before.node != after.node or before.is_terminating != after.is_terminating:
        return True
    if _cpus(before) != _cpus(after):
        return True
    return any(after.demand.get(name, 0) < amount for name, amount in before.demand.items())

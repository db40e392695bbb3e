"""Rows of node agents' reports: the last measured use of a node and its pods, and the layout of its CPUs. Pure."""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import ClassVar

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.clock import parse_stamp
from bus.errors import QuantityError, TimestampError
from bus.events.nodes import NodeMetricObserved, NodeTopologyObserved, NumaZone, Used

#: Cpu in milli, memory in bytes; None = nobody says.
Amounts = tuple[int | None, int | None]
#: More than any node has.
LARGEST = 2**50


class NodeLoad(msgspec.Struct, gc=False):
    """The real use of a node; it has the node's name. ``pods`` by ``namespace/name``, ``aggregated`` by duration."""

    kind: ClassVar[str] = "NodeMetric"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    #: When it was measured; 0 = never.
    updated_us: int
    interval_seconds: int | None
    used: Amounts | None
    pods: dict[str, Amounts]
    aggregated: tuple[tuple[str, dict[str, Amounts]], ...]
    #: ``pods`` says nothing: ``used`` is of all of them.
    names_no_pods: bool = False
    last_us: int = 0
    listed_us: int = 0


class NodeTopology(msgspec.Struct, gc=False):
    """The layout of a node's CPUs; it has the node's name. The fields are those of the fact."""

    kind: ClassVar[str] = "NodeResourceTopology"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    #: Shared: never changed.
    cpus: tuple[tuple[int, int, int, int], ...]
    reserved: str
    held: str
    full_only: bool
    policy: str
    zones: tuple[NumaZone, ...]
    last_us: int = 0
    listed_us: int = 0


def node_topology(
    fact: NodeTopologyObserved, time_us: int, known: NodeTopology | None
) -> NodeTopology:
    """The row of a NodeResourceTopology object."""
    return NodeTopology(
        fact.uid, intern(fact.name), fact.resource_version, time_us, _shared(fact.cpus), fact.reserved, fact.held,
        fact.full_only, intern(fact.policy), fact.zones, time_us,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _shared(
    cpus: tuple[tuple[int, int, int, int], ...],
) -> tuple[tuple[int, int, int, int], ...]:
    """One object for all nodes with equal CPU layouts."""
    return cpus


def node_load(fact: NodeMetricObserved, time_us: int, known: NodeLoad | None) -> NodeLoad:
    """The row of a NodeMetric object."""
    return NodeLoad(
        fact.uid, intern(fact.name), fact.resource_version, time_us, _measured_us(fact.updated, time_us), fact.interval_seconds,
        None if fact.used is None else _amounts(fact.used),
        {f"{one.namespace}/{one.name}": _amounts(Used(one.cpu, one.memory)) for one in fact.pods},
        tuple(
            (one.duration, {name: _amounts(used) for name, used in one.used.items()})
            for one in fact.aggregated
        ),
        fact.names_no_pods, time_us,
    )  # fmt: skip


def _amounts(used: Used) -> Amounts:
    return _amount(used.cpu, NANO // 1000), _amount(used.memory, NANO)


def _amount(text: str, unit: int) -> int | None:
    try:
        return min(max(observed_quantity(text) // unit, 0), LARGEST) if text else None
    except QuantityError:
        return None


def _measured_us(stamp: str | None, seen_us: int) -> int:
    """When it was measured, by the node's clock: before it was seen."""
    try:
        return min(max(parse_stamp(stamp), 0), seen_us) if stamp else 0
    except TimestampError:
        return 0

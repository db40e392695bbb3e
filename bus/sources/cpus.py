"""NodeResourceTopology objects as facts, and the CPUs requested or held by pods. Pure.

Both are JSON in annotations of objects, some of them written by tenants: unreadable ones are ignored.

Source: koordinator-sh/koordinator, apis/extension (numa_aware.go); topology.node.k8s.io/v1alpha1 NodeResourceTopology.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from bus.amounts import observed_quantity
from bus.cpusets import HIGHEST_CPU, parsed, readable, written
from bus.envelope import Event
from bus.errors import QuantityError
from bus.events.constraints import CpuTerms, HeldCpus, NumaShare
from bus.events.nodes import NodeTopologyObserved, NodeTopologyVanished, NumaZone
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record

QOS = "koordinator.sh/qosClass"
#: Classes of pods with exclusive CPUs.
OWN_CPUS = ("LSE", "LSR")
SPEC = "scheduling.koordinator.sh/resource-spec"
NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"
STATUS = "scheduling.koordinator.sh/resource-status"

_SAYING = frozenset({SPEC, NUMA_SPEC, STATUS})

TOPOLOGY = "node.koordinator.sh/cpu-topology"
KUBELET = "kubelet.koordinator.sh/cpu-manager-policy"
ALLOCATED = "node.koordinator.sh/pod-cpu-allocs"
RESERVATION = "node.koordinator.sh/reservation"
SYSTEM = "node.koordinator.sh/system-qos-resource"

#: Known words; any other one is :data:`OTHER`.
BINDS = ("Default", "FullPCPUs", "SpreadByPCPUs", "ConstrainedBurst")
EXCLUSIVES = ("None", "PCPULevel", "NUMANodeLevel")
NUMA_POLICIES = ("BestEffort", "Restricted", "SingleNUMANode")
OTHER = "other"
#: Longest readable quantity, and longest resource name.
LONGEST_QUANTITY = 32
LONGEST_NAME = 128
#: Most CPUs of one node, and of one pod. The CPUs of a larger node are unknown.
MOST_CPUS = 1_024
MOST_HELD = 1_024
#: NUMA nodes, and resources of each; most bytes of all of a node, and of a pod, as JSON.
MOST_ZONES = 64
MOST_RESOURCES = 16
LARGEST_ZONES = 16 * 1024
LARGEST_SHARES = 4 * 1024

T = TypeVar("T")


class _Spec(msgspec.Struct):
    """The decoded part of :data:`SPEC`."""

    required: str = msgspec.field(default="", name="requiredCPUBindPolicy")
    preferred: str = msgspec.field(default="", name="preferredCPUBindPolicy")
    exclusive: str = msgspec.field(default="", name="preferredCPUExclusivePolicy")


class NumaSpec(msgspec.Struct, rename="camel"):
    """The decoded part of :data:`NUMA_SPEC`."""

    numa_topology_policy: str = ""


class Share(msgspec.Struct):
    """An entry of ``numaNodeResources``. A quantity may be a number, too."""

    node: int = 0
    resources: dict[str, str | int | float | None] | None = None


class _Status(msgspec.Struct, rename="camel"):
    """The decoded part of :data:`STATUS`."""

    cpuset: str = ""
    numa_node_resources: list[Share] | None = None


class Cpu(msgspec.Struct):
    """An entry of ``detail``: a CPU, its core, its socket and its NUMA node."""

    id: int
    core: int
    socket: int
    node: int


class CpuTopology(msgspec.Struct):
    """The decoded part of :data:`TOPOLOGY`."""

    detail: list[Cpu] = []


class Kubelet(msgspec.Struct):
    """The decoded part of :data:`KUBELET`."""

    policy: str = ""
    options: dict[str, str] | None = None
    reserved: str = msgspec.field(default="", name="reservedCPUs")


class Allocated(msgspec.Struct, rename="camel"):
    """An entry of :data:`ALLOCATED`."""

    cpuset: str = ""
    managed_by_kubelet: bool = False


class Reservation(msgspec.Struct):
    """The decoded part of :data:`RESERVATION`."""

    reserved: str = msgspec.field(default="", name="reservedCPUs")


class System(msgspec.Struct, rename="camel"):
    """The decoded part of :data:`SYSTEM`."""

    cpuset: str = ""
    cpuset_exclusive: bool | None = None


class Resource(msgspec.Struct):
    """A resource of a zone."""

    name: str = ""
    allocatable: str | int | float | None = None
    capacity: str | int | float | None = None


class Zone(msgspec.Struct):
    """An entry of ``zones``."""

    name: str = ""
    type: str = ""
    resources: list[Resource] | None = None


class NodeTopology(msgspec.Struct, rename="camel"):
    """The decoded part of a NodeResourceTopology object."""

    metadata: Metadata
    topology_policies: list[str] | None = None
    zones: list[Zone] | None = None


def cpu_terms(
    labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> CpuTerms | None:
    """A pod's terms for CPUs and NUMA nodes; None = nothing."""
    noted, qos = annotations or {}, (labels or {}).get(QOS, "")
    if not qos and _SAYING.isdisjoint(noted):
        return None
    spec = _decoded(noted.get(SPEC), _Spec) or _Spec()
    numa = _decoded(noted.get(NUMA_SPEC), NumaSpec) or NumaSpec()
    found = CpuTerms(
        qos if qos in OWN_CPUS else "", _word(spec.required, BINDS), _word(spec.preferred, BINDS),
        _word(spec.exclusive, EXCLUSIVES), _word(numa.numa_topology_policy, NUMA_POLICIES), _held(noted.get(STATUS)),
    )  # fmt: skip
    return None if found == CpuTerms() else found


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``nodetopology.observed`` or ``nodetopology.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, NodeTopology)
    metadata = records.identified(found.metadata)
    fact: NodeTopologyObserved | NodeTopologyVanished
    if records.is_delete(record):
        fact = NodeTopologyVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        noted = metadata.annotations or {}
        kubelet = _decoded(noted.get(KUBELET), Kubelet) or Kubelet()
        cpus = _cpus(noted.get(TOPOLOGY))
        is_full = (kubelet.options or {}).get("full-pcpus-only") == "true"
        fact = NodeTopologyObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            cpus=cpus,
            reserved=_among(cpus, _reserved(noted, kubelet)),
            held=_among(cpus, _allocated(noted.get(ALLOCATED))),
            full_only=kubelet.policy == "static" and is_full,
            policy=_policy(found.topology_policies or ()),
            zones=tuple(_bounded(_zones(found.zones or ()), LARGEST_ZONES)),
        )
    return records.event_of(
        fact, record, key=fact.name, uid=fact.uid, resource_version=fact.resource_version
    )


def _held(text: str | None) -> HeldCpus | None:
    """The readable part of a pod's CPU annotation; None without one.

    An annotation unreadable here may be valid for the node's agent.
    """
    if text is None:
        return None
    status = _decoded(text, _Status) or _Status()
    shares = (
        NumaShare(one.node, _amounts((one.resources or {}).items()))
        for one in (status.numa_node_resources or [])[:MOST_ZONES]
        if 0 <= one.node <= HIGHEST_CPU
    )
    return HeldCpus(readable(status.cpuset, MOST_HELD), tuple(_bounded(shares, LARGEST_SHARES)))


def _cpus(text: str | None) -> tuple[tuple[int, int, int, int], ...]:
    detail = (_decoded(text, CpuTopology) or CpuTopology()).detail
    if len(detail) > MOST_CPUS:
        return ()
    found = tuple((one.id, one.core, one.socket, one.node) for one in detail)
    return found if all(0 <= n <= HIGHEST_CPU for one in found for n in one) else ()


def _reserved(noted: Mapping[str, str], kubelet: Kubelet) -> Iterator[str]:
    reservation = _decoded(noted.get(RESERVATION), Reservation) or Reservation()
    system = _decoded(noted.get(SYSTEM), System) or System()
    yield from (kubelet.reserved, reservation.reserved)
    yield "" if system.cpuset_exclusive is False else system.cpuset


def _allocated(text: str | None) -> Iterator[str]:
    found = _decoded(text, list[Allocated]) or []
    return (one.cpuset for one in found if one.managed_by_kubelet)


def _among(cpus: Iterable[tuple[int, int, int, int]], lists: Iterable[str]) -> str:
    """The CPUs of a node in one of these lists."""
    found = parsed(readable(",".join(lists), HIGHEST_CPU + 1)) or frozenset()
    return written({cpu[0] for cpu in cpus} & found)


def _bounded(parts: Iterable[T], room: int) -> Iterator[T]:
    """The first parts, as many as fit."""
    for one in parts:
        room -= len(msgspec.json.encode(one)) + 1
        if room < 0:
            return
        yield one


def _policy(words: Iterable[str]) -> str:
    """The kubelet's own policy, in the common word of node and pod."""
    for word in words:
        for policy in NUMA_POLICIES:
            if word.startswith(policy):
                return policy
    return ""


def _zones(zones: Iterable[Zone]) -> Iterator[NumaZone]:
    found = [one for one in zones if one.type == "Node"]
    for one in found[:MOST_ZONES]:
        number = one.name.rpartition("-")[2]
        if not number.isascii() or not number.isdigit() or len(number) > 4:
            continue
        amounts = (
            (each.name, each.capacity if each.allocatable is None else each.allocatable)
            for each in one.resources or ()
        )
        yield NumaZone(int(number), _amounts(amounts))


def _amounts(quantities: Iterable[tuple[str, str | int | float | None]]) -> dict[str, str]:
    """Sorted by name, so equal objects give equal bytes."""
    texts = {
        name: str(one)
        for name, one in quantities
        if one is not None and len(name) <= LONGEST_NAME and _is_quantity(str(one))
    }
    return dict(sorted(texts.items())[:MOST_RESOURCES])


def _is_quantity(text: str) -> bool:
    try:
        observed_quantity(text)
    except QuantityError:
        return False
    return len(text) <= LONGEST_QUANTITY


def _word(text: str, known: Collection[str]) -> str:
    return text if not text or text in known else OTHER


def _decoded(text: str | None, kind: type[T]) -> T | None:
    """None where it is absent, or no JSON of this kind."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None

"""The CPUs and NUMA nodes of a node, and the parts held by its pods. Pure.

A bound pod holds the CPUs in its annotation, from any author, but never more than its request: tenants write annotations. It also
holds its CPUs by a decision, even after a change of the annotation: the node's agent pins the pod there again once the annotation
is changed back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from bus.cpusets import parsed
from bus.events.constraints import CpuTerms, HeldCpus
from projections.cluster import Pod
from projections.cluster.loads import NodeTopology
from projections.cluster.rows import Node
from reactors.scheduling.columns.nodes import amounts_of
from reactors.scheduling.columns.table import Placed
from reactors.scheduling.cpus.giving import CPU, POLICIES, Ask, CpuRoom, NumaNode
from reactors.scheduling.cpus.picking import Bind, Holders, Strategy
from reactors.scheduling.cpus.topology import Cpu, Topology
from reactors.scheduling.cpus.wishes import wish_of

POLICY = "node.koordinator.sh/numa-topology-policy"
STRATEGY = "node.koordinator.sh/numa-allocate-strategy"
BIND = "node.koordinator.sh/cpu-bind-policy"

_REQUESTS = "requests."
_NOTHING = CpuTerms()


class HeldCores(msgspec.Struct, frozen=True):
    """The holding of a pod: CPUs, and amounts by NUMA node and resource."""

    cpus: frozenset[int] = frozenset()
    amounts: Mapping[int, Mapping[str, int]] = {}


def terms_of(pod: Pod) -> CpuTerms:
    """A pod's terms for CPUs and NUMA nodes."""
    found = pod.constraints
    return _NOTHING if found is None or found.cpus is None else found.cpus


def ask_of(pod: Pod, default: Bind) -> tuple[Ask, str]:
    """(the request of a pod, the reason why no node can take it)."""
    terms, amounts = terms_of(pod), requests_of(pod)
    wish, why = wish_of(terms, pod.priority, amounts.get(CPU, 0), default)
    policy = terms.numa_policy if terms.numa_policy in POLICIES else ""
    return Ask(wish, amounts, policy), why


def requests_of(pod: Pod) -> dict[str, int]:
    """The requests of a pod, by resource."""
    return {
        key.removeprefix(_REQUESTS): amount
        for key, amount in pod.demand.items()
        if key.startswith(_REQUESTS)
    }


def policy_of(node: Node, topology: NodeTopology | None) -> str:
    """A node's policy for NUMA nodes: by its label, else the kubelet's own; "" = none."""
    own = _label(node, POLICY) or (topology.policy if topology is not None else "")
    return own if own in POLICIES else ""


def room_of(
    node: Node,
    numa: NodeTopology | None,
    pods: Iterable[Placed],
    strategy: Strategy,
    most_pods: int,
    default: Bind,
) -> CpuRoom:
    """The CPUs of a node, with the holdings of its pods."""
    topology = _topology(numa.cpus) if numa is not None else _topology(())
    times: Counter[int] = Counter()
    by_core: set[int] = set()
    by_numa: set[int] = set()
    used: dict[int, Counter[str]] = {}
    spoken_for = 0
    for one in pods:
        held, terms = held_by(one, topology), terms_of(one.pod)
        if not one.pod.node and one.cpus is None:
            wish = ask_of(one.pod, default)[0].wish
            spoken_for += wish.count if wish is not None else 0
        times.update(held.cpus)
        if terms.exclusive == "PCPULevel":
            by_core |= held.cpus
        elif terms.exclusive == "NUMANodeLevel":
            by_numa |= held.cpus
        for number, amounts in held.amounts.items():
            used.setdefault(number, Counter()).update(amounts)
    if numa is not None:
        times.update({cpu: most_pods for cpu in parsed(numa.held) or ()})
    named = _label(node, STRATEGY)
    return CpuRoom(
        topology=topology,
        holders=Holders(times, by_core, by_numa),
        reserved=(parsed(numa.reserved) or frozenset()) if numa is not None else frozenset(),
        spoken_for=spoken_for,
        full_only=_label(node, BIND) == "FullPCPUsOnly" or (numa is not None and numa.full_only),
        strategy=_STRATEGIES.get(named, strategy),
        most_pods=most_pods,
        policy=policy_of(node, numa),
        numa=tuple(_numa(numa, used)) if numa is not None else (),
    )


def held_by(placed: Placed, topology: Topology) -> HeldCores:
    """The holding of a pod on a node: by its decision and, once it is bound, by its annotation."""
    own = _held(placed.pod, placed.cpus, topology)
    holds = terms_of(placed.pod).holds if placed.pod.node else None
    if holds is None or holds == placed.cpus:
        return own
    more = _held(placed.pod, holds, topology)
    return HeldCores(own.cpus | more.cpus, own.amounts or more.amounts)


def _held(pod: Pod, held: HeldCpus | None, topology: Topology) -> HeldCores:
    """The holding, limited to the pod's request, with the CPUs of the lowest numbers."""
    if held is None or held == HeldCpus():
        return HeldCores()
    left = requests_of(pod)
    numbers = sorted(parsed(held.cpuset) or ())
    cpus = frozenset(numbers[: -(-left.get(CPU, 0) // 1000)])
    found: dict[int, dict[str, int]] = {}
    for share in held.numa_node_resources:
        own = found.setdefault(share.node, {})
        for name, amount in amounts_of(share.resources).items():
            taken = min(amount, left.get(name, 0))
            if taken:
                left[name] -= taken
                own[name] = own.get(name, 0) + taken
    if not any(CPU in own for own in found.values()):
        for cpu in cpus & topology.cpus.keys():
            own = found.setdefault(topology.cpus[cpu].numa, {})
            own[CPU] = own.get(CPU, 0) + 1000
    return HeldCores(cpus, found)


def is_taken(placed: Placed, room: CpuRoom) -> bool:
    """Whether a pod counted in ``room`` holds CPUs missing on the node, or CPUs of other pods."""
    held, times = held_by(placed, room.topology), room.holders.times
    if any(
        one not in room.topology.cpus or one in room.reserved or times[one] > room.most_pods
        for one in held.cpus
    ):
        return True
    shares = placed.cpus.numa_node_resources if placed.cpus is not None else ()
    left = {one.node: one.free for one in room.numa}
    return any(left.get(one.node, {}).get(name, -1) < 0 for one in shares for name in one.resources)


def _numa(topology: NodeTopology, used: Mapping[int, Mapping[str, int]]) -> Iterable[NumaNode]:
    zones = {one.node: amounts_of(one.allocatable) for one in topology.zones}
    for number in sorted(zones):
        total, taken = zones[number], used.get(number, {})
        yield NumaNode(
            number, total, {name: amount - taken.get(name, 0) for name, amount in total.items()}
        )


def _label(node: Node, key: str) -> str:
    return node.labels.get(key) or node.further_labels.get(key, "")


_STRATEGIES: dict[str, Strategy] = {
    "MostAllocated": "MostAllocated",
    "LeastAllocated": "LeastAllocated",
}


@lru_cache(maxsize=256)
def _topology(cpus: tuple[tuple[int, int, int, int], ...]) -> Topology:
    return Topology(Cpu(*one) for one in cpus)

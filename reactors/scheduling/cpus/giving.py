"""Allocations of a node's CPUs and NUMA nodes to a pod, or the reason of a refusal. Pure.

A policy for NUMA nodes requires the pod's whole request on as few of them as possible. ``SingleNUMANode``: on one. ``Restricted``:
on as few as an empty node would need. ``BestEffort``: on the fewest with the room, else anywhere. Of equally good NUMA nodes the
fullest one is taken, or the emptiest, by the strategy.

Source: koordinator-sh/koordinator, "NUMA Topology Scheduling"; Kubernetes, "Control Topology Management Policies on a node".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import msgspec

from bus.cpusets import parsed, written
from bus.events.constraints import HeldCpus, NumaShare
from reactors.scheduling.cpus.picking import Holders, Strategy, Wish, pick
from reactors.scheduling.cpus.topology import Topology, parts_of
from reactors.scheduling.cpus.wishes import refused

CPU = "cpu"
SINGLE, RESTRICTED, BEST_EFFORT = "SingleNUMANode", "Restricted", "BestEffort"
POLICIES = (BEST_EFFORT, RESTRICTED, SINGLE)
#: Most NUMA nodes of a node for the kubelet's own alignment.
MOST_NUMA_NODES = 8

NO_CPUS = "node(s) had too few free CPUs"
NO_BIND = "node(s) cannot satisfy the required CPU bind policy"
NO_NUMA = "node(s) missing NUMA resources"
TOO_MANY_NUMA = f"node(s) with more than {MOST_NUMA_NODES} NUMA nodes"
OTHER_POLICY = "node(s) NUMA Topology policy not match"
NOT_ALIGNED = "node(s) NUMA Topology affinity error"


class NumaNode(msgspec.Struct, frozen=True):
    """The amounts of a NUMA node, in all and free: cpu in milli, all others in whole units."""

    node: int
    total: Mapping[str, int]
    free: Mapping[str, int]


class CpuRoom(msgspec.Struct):
    """The CPUs and NUMA nodes of a node, with their holders. Never changed."""

    topology: Topology
    holders: Holders = Holders()
    #: CPUs reserved from all pods.
    reserved: frozenset[int] = frozenset()
    #: The number of exclusive CPUs of pods here without a list of them yet.
    spoken_for: int = 0
    full_only: bool = False
    strategy: Strategy = "MostAllocated"
    most_pods: int = 1
    policy: str = ""
    numa: tuple[NumaNode, ...] = ()
    #: The CPUs available to a pod, and their number in each part of the node: NUMA node, socket, all.
    free: frozenset[int] = frozenset()
    free_by: tuple[Mapping[int, int], ...] = ()

    def __post_init__(self) -> None:
        cpus, times = self.topology.cpus, self.holders.times
        self.free = frozenset(
            one for one in cpus if one not in self.reserved and times.get(one, 0) < self.most_pods
        )
        self.free_by = parts_of([cpus[one] for one in self.free])

    @property
    def unclaimed(self) -> int:
        """The number of CPUs for another pod."""
        return len(self.free) - self.spoken_for


class Ask(msgspec.Struct, frozen=True):
    """The request of a pod: exclusive CPUs (None = none), its amounts as in :class:`NumaNode`, and its own policy."""

    wish: Wish | None
    amounts: Mapping[str, int]
    policy: str = ""

    @property
    def needs(self) -> int:
        """The number of exclusive CPUs."""
        return self.wish.count if self.wish is not None else 0


def refusal(ask: Ask, room: CpuRoom) -> str:
    """The reason of a node's refusal, as from :func:`given`; "" = it fits."""
    policy, is_free = ask.policy or room.policy, ask.wish is None or not ask.wish.is_required
    if not is_free or (policy in POLICIES and policy != SINGLE):
        return given(ask, room)[1]
    # The choice of CPUs does not matter here, and takes long.
    why = impossible(ask, room) or (NO_CPUS if ask.needs > room.unclaimed else "")
    needed = numa_amounts(ask, room) if policy == SINGLE and not why else {}
    if needed or (policy == SINGLE and ask.wish is not None and not why):
        return "" if next(_aligned(ask, room, needed, policy), None) else NOT_ALIGNED
    return why


def given(ask: Ask, room: CpuRoom) -> tuple[HeldCpus | None, str]:
    """(the allocation of a pod, None = nothing to count; the reason of a refusal, "" = it fits)."""
    why = impossible(ask, room)
    if why:
        return None, why
    if ask.needs > room.unclaimed:
        return None, NO_CPUS
    policy, needed = ask.policy or room.policy, numa_amounts(ask, room)
    if policy in POLICIES and (needed or ask.wish) and len(room.numa) <= MOST_NUMA_NODES:
        usable = _usable(ask.wish, room, room.numa if CPU in needed else ())
        own = _by_numa(room, usable)
        for nodes in _aligned(ask, room, needed, policy):
            if ask.needs <= sum(own.get(one.node, 0) for one in nodes):
                cpuset = _chosen(ask.wish, room, usable & _cpus_of(room, nodes))
                return HeldCpus(cpuset, _shares(nodes, needed, room, cpuset)), ""
            why = NO_BIND if ask.wish is not None and ask.wish.is_required else ""
        if policy != BEST_EFFORT:
            return None, why or NOT_ALIGNED
    if ask.wish is None:
        return None, ""
    usable = _usable(ask.wish, room)
    if ask.needs > len(usable):
        return None, NO_BIND if ask.wish.is_required else NO_CPUS
    return HeldCpus(_chosen(ask.wish, room, usable)), ""


def impossible(ask: Ask, room: CpuRoom) -> str:
    """The reason why even an empty node could not take a pod; "" = it could."""
    topology = room.topology
    if ask.wish is not None:
        why = refused(ask.wish, topology.per_core, full_only=room.full_only)
        if why or ask.needs > len(topology.cpus.keys() - room.reserved):
            return why or NO_CPUS
        if ask.wish.is_required and ask.wish.bind == "FullPCPUs" and ask.needs % topology.per_core:
            return NO_BIND
    if ask.policy and room.policy and ask.policy != room.policy:
        return OTHER_POLICY
    policy = ask.policy or room.policy
    if policy not in POLICIES or policy == BEST_EFFORT or not (ask.amounts or ask.wish):
        return ""
    if not room.numa:
        return NO_NUMA
    if len(room.numa) > MOST_NUMA_NODES:
        return TOO_MANY_NUMA
    least = fewest(ask, room, numa_amounts(ask, room))
    return NOT_ALIGNED if least == 0 or (policy == SINGLE and least > 1) else ""


def numa_amounts(ask: Ask, room: CpuRoom) -> dict[str, int]:
    """A pod's requests of the resources of NUMA nodes."""
    offered = {name for one in room.numa for name in one.total}
    return {name: amount for name, amount in ask.amounts.items() if amount > 0 and name in offered}


def fewest(ask: Ask, room: CpuRoom, needed: Mapping[str, int]) -> int:
    """The number of NUMA nodes for the pod on an empty node; 0 = all are too few."""
    own: Mapping[int, int] = room.topology.parts[0]
    if room.reserved or (ask.wish is not None and ask.wish.is_required):
        empty = room.topology.cpus.keys() - room.reserved
        own = _by_numa(room, empty - (_misfits(ask.wish, room, empty) if ask.wish else set()))
    for size in range(1, len(room.numa) + 1):
        for some in combinations(room.numa, size):
            count = sum(own.get(one.node, 0) for one in some)
            if ask.needs <= count and _has([one.total for one in some], needed):
                return size
    return 0


def _aligned(
    ask: Ask, room: CpuRoom, needed: Mapping[str, int], policy: str
) -> Iterator[tuple[NumaNode, ...]]:
    """Sets of NUMA nodes with enough room and allowed by the policy, the best first."""
    own = room.free_by[0]
    sizes: Sequence[int] = range(1, len(room.numa) + 1)
    if policy == SINGLE:
        sizes = (1,)
    elif policy == RESTRICTED:
        sizes = (fewest(ask, room, needed),)
    sign = 1 if room.strategy == "MostAllocated" else -1
    for size in sizes:
        ranked = []
        for some in combinations(room.numa, size):
            count = sum(own.get(one.node, 0) for one in some)
            if ask.needs <= count and _has([one.free for one in some], needed):
                left = sum(one.free.get(CPU, 0) for one in some)
                ranked.append(((sign * left, sign * count), [one.node for one in some], some))
        yield from (some for _, _, some in sorted(ranked, key=lambda one: one[:2]))


def _has(parts: Collection[Mapping[str, int]], needed: Mapping[str, int]) -> bool:
    """Whether these NUMA nodes together have the room. An overcommitted one counts as full, not as negative."""
    return all(
        sum(max(part.get(name, 0), 0) for part in parts) >= amount
        for name, amount in needed.items()
    )


def _by_numa(room: CpuRoom, cpus: Iterable[int]) -> dict[int, int]:
    """The number of these CPUs on each NUMA node."""
    return Counter(room.topology.cpus[one].numa for one in cpus)


def _cpus_of(room: CpuRoom, some: Collection[NumaNode]) -> set[int]:
    nodes = {one.node for one in some}
    return {number for number, cpu in room.topology.cpus.items() if cpu.numa in nodes}


def _usable(wish: Wish | None, room: CpuRoom, numa: Iterable[NumaNode] = ()) -> set[int]:
    """The free CPUs on cores as required by a pod; of each of these NUMA nodes no more than all pods leave of its CPUs."""
    if wish is None:
        return set()
    usable = set(room.free) - _misfits(wish, room, room.free)
    for one in numa:
        here, left = usable & _cpus_of(room, [one]), max(one.free.get(CPU, 0), 0) // 1000
        if len(here) > left:
            some = msgspec.structs.replace(wish, count=left)
            usable -= here.difference(_picked(some, room, here))
    return usable - _misfits(wish, room, usable)


def _picked(wish: Wish, room: CpuRoom, usable: Collection[int]) -> Collection[int]:
    """The CPUs chosen for a pod from these."""
    away = room.topology.cpus.keys() - usable
    return pick(
        room.topology, wish, room.holders, reserved=away, strategy=room.strategy,
        most_pods=room.most_pods,
    ) or ()  # fmt: skip


def _chosen(wish: Wish | None, room: CpuRoom, usable: Collection[int]) -> str:
    """The CPUs chosen for a pod from enough of these, as a list; "" = it gets no exclusive CPUs."""
    return "" if wish is None else written(_picked(wish, room, usable))


def _misfits(wish: Wish, room: CpuRoom, free: Collection[int]) -> set[int]:
    """CPUs excluded by a required policy: of cores not entirely free, or all but the first free one of each core."""
    if not wish.is_required:
        return set()
    cores: dict[tuple[int, int], list[int]] = {}
    for number in sorted(free):
        cores.setdefault(room.topology.cpus[number].place, []).append(number)
    if wish.bind == "SpreadByPCPUs":
        return {number for own in cores.values() for number in own[1:]}
    per_core = room.topology.per_core
    return {number for own in cores.values() if len(own) != per_core for number in own}


def _shares(
    nodes: Sequence[NumaNode], needed: Mapping[str, int], room: CpuRoom, cpuset: str
) -> tuple[NumaShare, ...]:
    """The share of each NUMA node: CPUs on their own NUMA node, other resources from the first ones with room."""
    left = dict(needed)
    own = _by_numa(room, parsed(cpuset) or ())
    found = []
    for one in nodes:
        taken = {}
        for name in sorted(left):
            free = max(one.free.get(name, 0), 0)
            amount = 1000 * own.get(one.node, 0) if name == CPU and cpuset else min(left[name], free)  # fmt: skip
            left[name] -= amount
            if amount:
                taken[name] = text_of(name, amount)
        if taken:
            found.append(NumaShare(one.node, taken))
    return tuple(found)


def text_of(name: str, amount: int) -> str:
    """An amount as a quantity."""
    if name != CPU:
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)

"""The choice of a pod's CPUs among the free CPUs of a node. Pure: the same CPUs, holders and wish give the same result.

Whole cores are taken from one NUMA node, then from one socket, then from as few sockets as possible. A spreading pod gets one CPU
of each core, within one NUMA node, then one socket, then anywhere. Exclusive policies are preferences: without other free CPUs,
those next to pods of the same policy are taken.

Source: koordinator-sh/koordinator, "CPU orchestration" (v1.0.0, nodenumaresource, cpu_accumulator).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from reactors.scheduling.cpus.topology import Cpu, Topology

Bind = Literal["FullPCPUs", "SpreadByPCPUs"]
Exclusive = Literal["", "PCPULevel", "NUMANodeLevel"]
Strategy = Literal["MostAllocated", "LeastAllocated"]
K = TypeVar("K")


class Holders(msgspec.Struct, frozen=True):
    """The holders of a node's CPUs. ``times``: the number of pods on each CPU."""

    times: Mapping[int, int] = {}
    #: CPUs of pods with the exclusive policy for their core, or for their NUMA node.
    by_core: Collection[int] = ()
    by_numa: Collection[int] = ()


class Wish(msgspec.Struct, frozen=True):
    """The CPU request of a pod: a number, and a policy for their position."""

    count: int
    bind: Bind = "FullPCPUs"
    exclusive: Exclusive = ""
    #: The policy is required, not preferred.
    is_required: bool = False


def pick(
    topology: Topology,
    wish: Wish,
    holders: Holders,
    *,
    reserved: Collection[int] = (),
    strategy: Strategy = "MostAllocated",
    most_pods: int = 1,
) -> tuple[int, ...] | None:
    """The CPUs for a pod, ascending; None if too few are free. ``most_pods`` may share one CPU."""
    picker = Picker(
        topology, wish, holders, reserved=reserved, strategy=strategy, most_pods=most_pods
    )
    if wish.count > len(picker.free):
        return None
    for take in (picker.take_cores, picker.take_threads, picker.take_rest):
        if picker.needed < 1:
            break
        take()
    return tuple(sorted(picker.taken))


class Picker:
    """The free CPUs of a node while some of them are taken for one pod."""

    def __init__(
        self,
        topology: Topology,
        wish: Wish,
        holders: Holders,
        *,
        reserved: Collection[int] = (),
        strategy: Strategy = "MostAllocated",
        most_pods: int = 1,
    ) -> None:
        self._topology, self._wish = topology, wish
        # Of equally good parts, MostAllocated takes the fuller ones first.
        self._sign = 1 if strategy == "MostAllocated" else -1
        self._times = holders.times if most_pods > 1 else {}
        known = topology.cpus
        self._cores = {known[one].place for one in holders.by_core if one in known}
        self._numa = {known[one].numa for one in holders.by_numa if one in known}
        self.free: dict[int, Cpu] = {
            number: cpu
            for number, cpu in known.items()
            if holders.times.get(number, 0) < most_pods and number not in reserved
        }
        self.needed = wish.count
        self.taken: set[int] = set()

    def take_cores(self) -> None:
        """Take whole cores, as many as fit, if the pod requires these or a core is one CPU."""
        topology = self._topology
        if self._wish.bind != "FullPCPUs" and topology.per_core != 1:
            return
        if self.needed <= topology.per_numa and self._take_one_of(
            self.cores_by_numa(avoids=avoids) for avoids in (True, False)
        ):
            return
        if self.needed <= topology.per_socket and self._take_one_of([self.cores_by_socket()]):
            return
        left = []
        for cpus in sorted(self.cores_by_socket(), key=len, reverse=True):
            if self.needed >= len(cpus):
                self._take(cpus)
            else:
                left.append(cpus)
        for cpus in sorted(left, key=len):
            count = min(self.needed, len(cpus)) // topology.per_core * topology.per_core
            self._take(cpus[:count])

    def take_threads(self) -> None:
        """Take CPUs of different cores for a spreading pod, all of one NUMA node or of one socket."""
        topology = self._topology
        if self._wish.bind == "FullPCPUs":
            return
        for most, parts in (
            (topology.per_numa, self.threads_by_numa),
            (topology.per_socket, self.threads_by_socket),
        ):
            if self.needed <= most and self._take_one_of(
                [self._spread(cpus) for cpus in parts(avoids=avoids)] for avoids in (True, False)
            ):
                return

    def take_rest(self) -> None:
        """Take the missing CPUs: first from sockets of the pod's CPUs, and those not avoided by a policy."""
        for avoids in (True, False):
            self._take(self._spread(self._rest(avoids=avoids))[: self.needed])

    def cores_by_numa(self, *, avoids: bool) -> list[list[int]]:
        """The CPUs of free cores of each NUMA node, in the order of the search."""
        free = [one for one in self.free.values() if not (avoids and self._is_avoided_numa(one))]
        sockets = _counted(free, lambda one: one.socket)
        parts = self._full_cores(free, lambda one: one.numa)
        return [
            parts[one] for one in sorted(parts, key=lambda one: self._turn(one, parts, sockets))
        ]

    def cores_by_socket(self) -> list[list[int]]:
        """The CPUs of free cores of each socket, in the order of the search."""
        parts = self._full_cores(self.free.values(), lambda one: one.socket)
        return [
            parts[one] for one in sorted(parts, key=lambda one: (self._sign * len(parts[one]), one))
        ]

    def threads_by_numa(self, *, avoids: bool) -> list[list[int]]:
        """The free CPUs of each NUMA node, one of each core where others are avoided, in the order of the search."""
        free = [one for one in self.free.values() if not (avoids and self._is_avoided(one))]
        sockets, parts = (
            _counted(free, lambda one: one.socket),
            _grouped(free, lambda one: one.numa),
        )
        order = sorted(parts, key=lambda one: self._turn(one, parts, sockets))
        return [self._one_of_each(parts[one], avoids=avoids) for one in order]

    def threads_by_socket(self, *, avoids: bool) -> list[list[int]]:
        """The free CPUs of each socket, one of each core where others are avoided, in the order of the search."""
        parts = _grouped(
            (one for one in self.free.values() if not (avoids and self._is_avoided_core(one))),
            lambda one: one.socket,
        )
        found = {key: self._one_of_each(cpus, avoids=avoids) for key, cpus in parts.items()}
        return [
            found[one] for one in sorted(found, key=lambda one: (self._sign * len(found[one]), one))
        ]

    def _rest(self, *, avoids: bool) -> list[int]:
        free = [one for one in self.free.values() if not (avoids and self._is_avoided(one))]
        sockets = _counted(free, lambda one: one.socket)
        numa = _counted(free, lambda one: one.numa)
        own = _counted((self._topology.cpus[one] for one in self.taken), lambda one: one.socket)
        cores = _grouped(free, lambda one: one.place)

        def turn(core: tuple[int, int]) -> tuple[object, ...]:
            socket, cpus = core[0], cores[core]
            node = self.free[cpus[0]].numa
            return (
                -own.get(socket, 0), self._sign * sockets[socket], self._sign * numa[node],
                len(cpus), socket, self._held(cpus), core,
            )  # fmt: skip

        return [
            cpu for core in sorted(cores, key=turn) for cpu in sorted(cores[core], key=self._age)
        ]

    def _turn(
        self, numa: int, parts: Mapping[int, Sequence[int]], sockets: Mapping[int, int]
    ) -> tuple[int, int, int]:
        cpus = parts[numa]
        socket = self.free[cpus[0]].socket
        return self._sign * len(cpus), self._sign * sockets[socket], numa

    def _full_cores(self, free: Iterable[Cpu], part: Callable[[Cpu], int]) -> dict[int, list[int]]:
        found: dict[int, list[tuple[int, tuple[int, int], list[int]]]] = {}
        for core, cpus in _grouped(free, lambda one: one.place).items():
            if len(cpus) == self._topology.per_core:
                entry = (self._held(cpus), core, sorted(cpus))
                found.setdefault(part(self.free[cpus[0]]), []).append(entry)
        return {
            key: [cpu for _, _, cpus in sorted(cores) for cpu in cpus]
            for key, cores in found.items()
        }

    def _one_of_each(self, cpus: Iterable[int], *, avoids: bool) -> list[int]:
        ordered = sorted(cpus, key=self._age)
        if not avoids:
            return ordered
        first: dict[tuple[int, int], int] = {}
        for cpu in ordered:
            first.setdefault(self.free[cpu].place, cpu)
        return list(first.values())

    def _spread(self, cpus: list[int]) -> list[int]:
        """The first CPU of each core, then the second ones."""
        if len(cpus) <= self._topology.per_core:
            return cpus
        seen: dict[tuple[int, int], int] = {}
        turns: list[tuple[int, int, int]] = []
        for at, cpu in enumerate(cpus):
            core = self._topology.cpus[cpu].place
            seen[core] = seen.get(core, -1) + 1
            turns.append((seen[core], at, cpu))
        return [cpu for _, _, cpu in sorted(turns)]

    def _take_one_of(self, attempts: Iterable[Iterable[list[int]]]) -> bool:
        """Take all needed CPUs from the first part with enough."""
        for parts in attempts:
            for cpus in parts:
                if len(cpus) >= self.needed:
                    self._take(cpus[: self.needed])
                    return True
        return False

    def _take(self, cpus: Iterable[int]) -> None:
        for number in cpus:
            cpu = self.free.pop(number)
            self.taken.add(number)
            self.needed -= 1
            if self._wish.exclusive == "PCPULevel":
                self._cores.add(cpu.place)
            elif self._wish.exclusive == "NUMANodeLevel":
                self._numa.add(cpu.numa)

    def _age(self, cpu: int) -> tuple[int, int]:
        return self._times.get(cpu, 0), cpu

    def _held(self, cpus: Iterable[int]) -> int:
        return sum(self._times.get(cpu, 0) for cpu in cpus)

    def _is_avoided(self, cpu: Cpu) -> bool:
        return self._is_avoided_core(cpu) or self._is_avoided_numa(cpu)

    def _is_avoided_core(self, cpu: Cpu) -> bool:
        return self._wish.exclusive == "PCPULevel" and cpu.place in self._cores

    def _is_avoided_numa(self, cpu: Cpu) -> bool:
        return self._wish.exclusive == "NUMANodeLevel" and cpu.numa in self._numa


def _grouped(cpus: Iterable[Cpu], part: Callable[[Cpu], K]) -> dict[K, list[int]]:
    found: dict[K, list[int]] = {}
    for one in cpus:
        found.setdefault(part(one), []).append(one.number)
    return found


def _counted(cpus: Iterable[Cpu], part: Callable[[Cpu], int]) -> dict[int, int]:
    return {key: len(found) for key, found in _grouped(cpus, part).items()}

"""The CPUs of a node, with their cores, NUMA nodes and sockets. Pure.

Source: koordinator-sh/koordinator, "CPU orchestration".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec


class Cpu(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A logical CPU. The socket and a number there identify a core; the other numbers are unique on the node."""

    number: int
    core: int
    socket: int
    numa: int

    @property
    def place(self) -> tuple[int, int]:
        """The key of its core."""
        return self.socket, self.core


class Topology:
    """All CPUs of a node. Of two with one number the last one counts."""

    def __init__(self, cpus: Iterable[Cpu]) -> None:
        self.cpus = {one.number: one for one in cpus}
        count, all_cpus = len(self.cpus), self.cpus.values()
        cores = len({(one.place, one.numa) for one in all_cpus})
        sockets = len({one.socket for one in all_cpus})
        numa = len({(one.socket, one.numa) for one in all_cpus})
        #: CPUs of one core, one NUMA node and one socket, on average and rounded down; 0 for a node without CPUs.
        self.per_core = count // cores if cores else 0
        self.per_numa = count // numa if numa else 0
        self.per_socket = count // sockets if sockets else 0
        #: The number of CPUs of each NUMA node, each socket, and the node.
        self.parts = parts_of(all_cpus)

    @property
    def is_valid(self) -> bool:
        """Whether the topology allows exclusive CPUs."""
        return bool(self.cpus)


def parts_of(cpus: Collection[Cpu]) -> tuple[Mapping[int, int], ...]:
    """The number of these CPUs on each NUMA node, each socket, and, as 0, the node."""
    return Counter(one.numa for one in cpus), Counter(one.socket for one in cpus), {0: len(cpus)}

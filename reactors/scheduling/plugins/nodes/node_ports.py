"""NodePorts: two pods of a node cannot take the same port of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np

from reactors.scheduling.columns.table import ANY, Port, Rows, ports_of
from reactors.scheduling.framework.contract import ONE_CHANGE, Cycle, Refused
from reactors.scheduling.queueing.hints import Hint

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(msgspec.Struct, frozen=True):
    """Host ports by protocol, number and address; the wildcard address conflicts with every address."""

    name: ClassVar[str] = "NodePorts"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE})

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes with a pod on one of the ports."""
        wanted = ports_of(cycle.pod)
        if not wanted:
            return ()
        columns = cycle.columns
        asked = np.arange(len(columns.nodes))[rows].tolist()
        taken = np.array([_clash(wanted, columns.ports[row]) != "" for row in asked], np.bool_)
        return (Refused(REASON, taken),) if taken.any() else ()

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Use another port."""
        return (
            f"take another host port than {_clash(ports_of(cycle.pod), cycle.columns.ports[row])}"
        )


def _clash(wanted: Sequence[Port], held: dict[Port, int]) -> str:
    for protocol, port, address in wanted:
        for other in held:
            if other[:2] == (protocol, port) and (
                address == other[2] or ANY in (address, other[2])
            ):
                return f"{protocol} {port}"
    return ""

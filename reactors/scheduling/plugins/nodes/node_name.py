"""NodeName: a pod with a node name fits that node only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np

from reactors.scheduling.columns.table import Rows
from reactors.scheduling.framework.contract import ONE_CHANGE, Cycle, Refused
from reactors.scheduling.queueing.hints import Hint

REASON = "node(s) didn't match the requested node name"


class NodeName(msgspec.Struct, frozen=True):
    """Allows only the node in ``spec.nodeName``."""

    name: ClassVar[str] = "NodeName"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE})

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """All nodes other than the named one."""
        if not cycle.pod.node:
            return ()
        others = np.ones(len(cycle.columns.nodes), np.bool_)
        row = cycle.columns.row_of.get(cycle.pod.node)
        if row is not None:
            others[row] = False
        others = others[rows]
        return (Refused(REASON, others, others),)

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Remove the node name, or change it."""
        return f"leave spec.nodeName out, or set it to {cycle.columns.names[row]}"

"""NodeUnschedulable: a cordoned node takes no new pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from bus.events.constraints import Taint
from reactors.scheduling.columns.table import Rows
from reactors.scheduling.framework.contract import ONE_CHANGE, Cycle, Refused
from reactors.scheduling.plugins.nodes.taint_toleration import tolerates
from reactors.scheduling.queueing.hints import Hint

#: The taint of a cordon: pods tolerating it may be placed there.
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
REASON = "node(s) were unschedulable"


class NodeUnschedulable(msgspec.Struct, frozen=True):
    """Refuses nodes with ``spec.unschedulable``."""

    name: ClassVar[str] = "NodeUnschedulable"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE})

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """The cordoned nodes."""
        if tolerates(cycle.pod, CORDONED):
            return ()
        cordoned = cycle.columns.unschedulable[rows]
        return (Refused(REASON, cordoned, cordoned),) if cordoned.any() else ()

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Uncordon the node."""
        return f"uncordon node {cycle.columns.names[row]}"

"""SchedulingGates: a pod with gates waits until they are removed."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from projections.cluster import Pod
from reactors.scheduling.framework.context import PluginContext


class SchedulingGates(msgspec.Struct, frozen=True):
    """Keeps pods with ``spec.schedulingGates`` out of the queue."""

    name: ClassVar[str] = "SchedulingGates"
    is_local: ClassVar[bool] = True

    def pre_enqueue(self, pod: Pod, context: PluginContext) -> str:
        """The remaining gates."""
        gates = pod.constraints.scheduling_gates if pod.constraints else ()
        return f"waiting for scheduling gates: [{' '.join(gates)}]" if gates else ""

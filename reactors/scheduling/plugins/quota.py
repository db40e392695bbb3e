"""Quota: a pod starts after its quota has admitted the workload charged for it.

A pod waits before any node is evaluated while its workload is queued, refused, or charged with less than its demand. A workload
may be charged without a check, since it existed already; its pods wait while the quota is over its limit. Then pods of lower
priority, charged by themselves to the same quota, may make room. In any case victims are of the pod's own quota: another quota's
guarantee is never taken.

Source: Koordinator's ElasticQuota plugin; docs/scheduling.md; :mod:`reactors.reclaim.preemption`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from projections.cluster import Pod
from reactors.scheduling.columns.table import Rows
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import SKIP, Code, Cycle, Refused, Sparing, Status
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.quota_state import Excess


class Quota(msgspec.Struct, frozen=True):
    """Quotas for the framework. Without a state of admission, as at the check of a file, every pod may start."""

    name: ClassVar[str] = "Quota"
    is_local: ClassVar[bool] = False
    reads_quotas: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.QUOTA})

    def pre_enqueue(self, pod: Pod, context: PluginContext) -> str:
        """The reason of its wait, if evictions would not help: it is tried at once after the reason ends, and not before."""
        found = context.quotas.excess(pod) if context.quotas is not None else None
        return found.reason if found is not None and not found.deficits else ""

    def key(self, cycle: Cycle) -> Hashable:
        """Why it may not start."""
        found = cycle.data.get(self.name)
        return found.reason if found is not None else ""

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """The reason, if evictions would not help."""
        cycle.data.pop(self.name, None)
        quotas = cycle.context.quotas
        found = quotas.excess(cycle.pod) if quotas is not None else None
        if found is None:
            return SKIP
        if not found.deficits:
            return Status(Code.UNRESOLVABLE, found.reason)
        cycle.data[self.name] = found
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """All nodes, while the quota is over its limit."""
        found: Excess | None = cycle.data.get(self.name)
        columns = cycle.columns
        if found is None:
            return ()
        if columns.lifted and not found.is_over_without(sorted(columns.lifted)):
            return ()
        size = len(columns.nodes) if isinstance(rows, slice) else rows.size
        return [Refused(found.reason, np.ones(size, np.bool_))]

    def sparing(self, cycle: Cycle, sparing: Sparing) -> Sparing | None:
        """Pods of other quotas are spared; and all pods while room is being made in its own quota."""
        quotas, pod = cycle.context.quotas, cycle.pod
        if quotas is None:
            return sparing
        found: Excess | None = cycle.data.get(self.name)
        if found is not None:
            nominated = [one.pod for one in cycle.columns.nominated.values()]
            if quotas.makes_room(found, pod, nominated):
                return None
        own = quotas.quota(pod)

        def may_go(victim: Pod) -> bool:
            return sparing.may_go(victim) and quotas.can_preempt(pod, own, victim)

        return msgspec.structs.replace(sparing, may_go=may_go)

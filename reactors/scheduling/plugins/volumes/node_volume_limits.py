"""NodeVolumeLimits: a node attaches a limited number of volumes of a CSI driver.

Source: Kubernetes, "Node-specific Volume Limits".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from projections.cluster.volumes import claims_of
from reactors.scheduling.columns.table import Rows
from reactors.scheduling.framework.contract import ONE_CHANGE, SKIP, Cycle, Refused, Status
from reactors.scheduling.queueing.hints import Hint

REASON = "node(s) exceed max volume count"


class NodeVolumeLimits(msgspec.Struct, frozen=True):
    """Volumes of the pods of a node, each counted once, by driver."""

    name: ClassVar[str] = "NodeVolumeLimits"
    is_local: ClassVar[bool] = False
    helped_by: ClassVar[frozenset[Hint]] = frozenset(
        {Hint.NODE, Hint.GONE, Hint.CLAIM, Hint.VOLUME}
    )

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Only pods with claims have volumes to be attached."""
        return None if claims_of(cycle.pod) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes above their limit with the pod's volumes."""
        volumes = cycle.columns.volumes
        claims = [volumes.claim(*key) for key in claims_of(cycle.pod)]
        wanted = [volumes.attachment(one) for one in claims if one is not None]
        full = volumes.full(one for one in wanted if one is not None)[rows] > 0
        return (Refused(REASON, full),) if full.any() else ()

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """End a pod with volumes."""
        return f"end a pod with volumes on {cycle.columns.names[row]}: no more can be attached"

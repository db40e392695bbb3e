"""Evictions of a pod by other programs, read from the pod's own conditions: steps of ``bursar why``.

Source: Kubernetes documentation, "Disruptions", Pod disruption conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bus.clock import format_stamp
from bus.events.pods import PodObserved, PodVanished
from deploy.cli.quotas.finding import Found
from projections.quota_trees.queries import Select, archived, facts

#: The meaning of each reason of a pod's condition DisruptionTarget.
WHO = {
    "PreemptionByScheduler": "a scheduler made room for pods, or a PodGroup, of higher priority",
    "DeletionByTaintManager": "its node has a NoExecute taint that it does not tolerate",
    "DeletionByDeviceTaintManager": (
        "a device that its claim gave it has a NoExecute taint, of a DeviceTaintRule or of its driver"
    ),
    "EvictionByEvictionAPI": "it was evicted through the API, as a drain does it",
    "DeletionByPodGC": "its node is gone, or out of service",
    "TerminationByKubelet": "its node ran short of something, shut down, or needed room for a critical pod",
}
_UNKNOWN = "another component ended it, for a reason that is not kept"


def steps(select: Select, cluster: str, objects: Iterable[Found]) -> Iterator[dict[str, Any]]:
    """One step for each disruption of these pods, where it was seen first."""
    types = (PodObserved.wire_type, PodVanished.wire_type)
    for one in objects:
        known: set[tuple[str, str]] = set()
        for event, fact in facts(archived(select, cluster, types, key=one.uid)):
            assert isinstance(fact, PodObserved | PodVanished)
            reported = (fact.disrupted or "", fact.disruption)
            if not fact.disrupted or reported in known:
                continue
            known.add(reported)
            yield {
                "sequence": event.sequence,
                "time": format_stamp(event.time_us),
                "step": "disrupted",
                "about": f"Pod {one.namespace}/{one.name}",
                "quota": "",
                "reason": fact.disruption,
                "numbers": WHO.get(fact.disruption, _UNKNOWN),
                "based_on": None,
                "id": "",
            }

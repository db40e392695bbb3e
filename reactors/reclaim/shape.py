"""A pod as reclaiming looks at it, and which of two pods is the more important.

Source: Kubernetes `MoreImportantPod` (pkg/scheduler/util): the higher priority, then the earlier
start; the rest of the order here is by name, so that equal pods always come out the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Pod(msgspec.Struct, frozen=True):
    """A pod that holds something of a quota.

    `request` in the quota's units; `started_us` None where it has not started yet: then it is the
    least important of its priority. `preemptible` False where the pod's label of that name says
    "false": such a pod is never a victim.
    """

    name: str
    namespace: str = ""
    quota: str = ""
    priority: int = 0
    started_us: int | None = None
    request: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    preemptible: bool = True


def importance(pod: Pod) -> tuple[int, bool, int, str, str]:
    """Sorts pods from the most important to the least."""
    waits = pod.started_us is None
    return (-pod.priority, waits, pod.started_us or 0, pod.namespace, pod.name)

"""The order of evictions of pods, and the annotations and labels for users to change it. Pure.

Sort keys: priority class (Free, Batch, Mid, Prod), priority, QoS class of Kubernetes, QoS class of Koordinator, deletion cost,
eviction cost, pods with measured usage before others, younger pods before older ones. Pods without a priority class, by label or
priority, count as Batch if BE, else Prod.

Source: koordinator-sh/koordinator, pkg/descheduler/utils/sorter/pod.go and apis/extension; docs/migration.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from bus.kube.watch.labels import DO_NOT_MOVE, EVICTION_COSTS

#: This eviction cost forbids eviction.
NEVER = 2**31 - 1

EVICTION_COST, DELETION_COST = EVICTION_COSTS
QOS_CLASS = "koordinator.sh/qosClass"
PRIORITY_CLASS = "koordinator.sh/priority-class"

KubeQos = Literal["BestEffort", "Burstable", "Guaranteed"]

#: No plus sign, no leading zero: the API server of Kubernetes accepts no other deletion cost.
_COST = re.compile(r"0|-?[1-9][0-9]{0,9}")
_PRIORITY_CLASSES = {"koord-free": 1, "koord-batch": 2, "koord-mid": 3, "koord-prod": 4}
#: Priority classes by their ranges of priorities.
_RANGES = ((3000, 3999, 1), (5000, 5999, 2), (7000, 7999, 3), (9000, 9999, 4))
_QOS_CLASSES = {"BE": 1, "LS": 2, "LSR": 3, "LSE": 4, "SYSTEM": 4}
_KUBE_QOS: dict[str, int] = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}
#: The default class of Koordinator for a pod, by its class of Kubernetes.
_DEFAULT_QOS: dict[str, int] = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}
_BATCH, _PROD = 2, 4


class Evictable(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as compared by the order of evictions. ``priority_class`` and ``qos`` are the texts of its labels."""

    namespace: str = ""
    name: str = ""
    priority: int = 0
    priority_class: str = ""
    qos: str = ""
    kube_qos: KubeQos = "BestEffort"
    deletion_cost: int = 0
    eviction_cost: int = 0
    has_metric: bool = False
    created_us: int = 0


def cost_of(annotations: Mapping[str, str], name: str) -> int:
    """The cost in an annotation; 0 if it is absent, or no 32-bit integer."""
    text = annotations.get(name, "")
    cost = int(text) if _COST.fullmatch(text) else 0
    return cost if -(2**31) <= cost <= NEVER else 0


def is_evictable(eviction_cost: int) -> bool:
    """Whether a pod with this eviction cost may be evicted at all."""
    return eviction_cost != NEVER


def is_opted_out(annotations: Mapping[str, str]) -> bool:
    """Whether a pod opts out of moves."""
    return annotations.get(DO_NOT_MOVE, "").lower() == "true"


def place(pod: Evictable) -> tuple[int | str, ...]:
    """The sort key of a pod: the smallest is evicted first. Names break ties."""
    qos = _QOS_CLASSES.get(pod.qos, _DEFAULT_QOS[pod.kube_qos])
    return (
        _priority_class(pod, qos), pod.priority, _KUBE_QOS[pod.kube_qos], qos, pod.deletion_cost, pod.eviction_cost,
        not pod.has_metric, -pod.created_us, pod.namespace, pod.name,
    )  # fmt: skip


def kube_qos(demand: Mapping[str, int]) -> KubeQos:
    """The QoS class of Kubernetes by a pod's summed ``requests.<resource>`` and ``limits.<resource>`` of cpu and memory."""
    requests, limits = (
        [demand.get(f"{part}.{name}", 0) for name in ("cpu", "memory")] for part in ("requests", "limits")
    )  # fmt: skip
    if not any(requests) and not any(limits):
        return "BestEffort"
    return "Guaranteed" if all(limits) and requests == limits else "Burstable"


def _priority_class(pod: Evictable, qos: int) -> int:
    named = _PRIORITY_CLASSES.get(pod.priority_class)
    if named is not None:
        return named
    ranges = (rank for first, last, rank in _RANGES if first <= pod.priority <= last)
    return next(ranges, _BATCH if qos == _QOS_CLASSES["BE"] else _PROD)

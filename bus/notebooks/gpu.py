"""The computing share of a notebook's GPUs, from the DCGM exporter of its node.

The profiling metric also works in MIG slices, where the utilization of the device is not there; the latter counts where the
former is missing for the pod. One exporter answers for all pods of a node, so lines are found by the pod's name.

Source: docs/culling.md; NVIDIA dcgm-exporter (DCGM_FI_PROF_GR_ENGINE_ACTIVE 0 to 1, DCGM_FI_DEV_GPU_UTIL 0 to 100).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from bus.events.notebooks import Evidence
from bus.notebooks.contract import EvidenceKind, Peer, Reply
from bus.notebooks.exposition import values
from bus.notebooks.prober import ProbeResponse, ProbeTarget
from bus.notebooks.readings import malformed, unread

SOURCE = "gpu"
EXPORTER_PORT = 9400
#: A GPU with a smaller share is idle: a desktop's drawing or a monitoring tool's reading is no work.
BUSY_PERMILLE = 10

_ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_DEVICE = "DCGM_FI_DEV_GPU_UTIL"
_PERMILLE = {_ENGINE: 1_000, _DEVICE: 10}


def asks(peer: Peer) -> tuple[ProbeTarget, ...]:
    """The exporter's metrics, where the pod holds GPUs and its node has one."""
    return (ProbeTarget(peer.exporter, EXPORTER_PORT, "/metrics"),) if peer.exporter else ()


def reads(replies: Sequence[Reply], peer: Peer, observed_us: int) -> tuple[Evidence, ...]:
    """Busy when the busiest of its GPUs is. An exporter without the pod's name gives no evidence."""
    reply = replies[0]
    missing = unread(SOURCE, reply)
    if missing is not None or not isinstance(reply, ProbeResponse):
        return (missing or malformed(SOURCE, ""),)
    duty: dict[str, list[Decimal]] = {_ENGINE: [], _DEVICE: []}
    for name, labels, value in values(reply.body, frozenset(duty)):
        if _pod(labels) == (peer.namespace, peer.name):
            duty[name].append(value * _PERMILLE[name])
    shares = duty[_ENGINE] or duty[_DEVICE]
    if not shares:
        return (malformed(SOURCE, "pod_not_named"),)
    permille = min(int(max(shares)), 1_000)
    return (
        Evidence(
            source=SOURCE,
            busy=permille >= BUSY_PERMILLE,
            counters={"duty_permille": permille, "gpus": len(shares)},
        ),
    )


def _pod(labels: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Namespace and name; a scraper with labels of its own renames the exporter's to ``exported_``."""
    if "exported_pod" in labels:
        return labels.get("exported_namespace"), labels["exported_pod"]
    return labels.get("namespace"), labels.get("pod")


kind = EvidenceKind("gpu", asks, reads, everywhere=True)

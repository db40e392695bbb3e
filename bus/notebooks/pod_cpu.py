"""The CPU that a notebook's pod uses, from the metrics API: evidence of jobs in a terminal of a closed browser.

The number is an average over a past window, so work is dated to the end of that window.

Source: Kubernetes resource metrics API, metrics.k8s.io/v1beta1 PodMetrics.
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.amounts import observed_quantity
from bus.errors import QuantityError
from bus.events.notebooks import Evidence
from bus.notebooks.contract import ApiRequest, EvidenceKind, Peer, Reply
from bus.notebooks.prober import ProbeResponse
from bus.notebooks.readings import json_of, malformed, stamped, unread

SOURCE = "pod_cpu"
#: A server with idle kernels and an open browser uses a few hundredths of a core.
BUSY_MILLICORES = 200


def asks(peer: Peer) -> tuple[ApiRequest, ...]:
    """The pod's metrics, from the API server."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{peer.namespace}/pods/{peer.name}"
    return (ApiRequest(path),)


def reads(replies: Sequence[Reply], peer: Peer, observed_us: int) -> tuple[Evidence, ...]:
    """The sum over containers. A cluster without the metrics API (404) gives no evidence at all."""
    reply = replies[0]
    if isinstance(reply, ProbeResponse) and reply.status == 404:
        return ()
    missing = unread(SOURCE, reply)
    if missing is not None or not isinstance(reply, ProbeResponse):
        return (missing or malformed(SOURCE, ""),)
    found = json_of(reply.body)
    found = found if isinstance(found, dict) else {}
    ended_us, flag = stamped(found.get("timestamp"), peer, observed_us)
    millicores = _millicores(found.get("containers"))
    if ended_us is None or millicores is None:
        return (malformed(SOURCE, "not_pod_metrics"),)
    return (
        Evidence(
            source=SOURCE,
            active_us=ended_us if millicores >= BUSY_MILLICORES else None,
            counters={"cpu_milli": millicores},
            flags=(flag,) if flag else (),
        ),
    )


def _millicores(containers: object) -> int | None:
    """Millicores of all containers, rounded down; None where one of them names none."""
    if not isinstance(containers, list) or not containers:
        return None
    nano = 0
    for container in containers:
        usage = container.get("usage") if isinstance(container, dict) else None
        cpu = usage.get("cpu") if isinstance(usage, dict) else None
        if not isinstance(cpu, str):
            return None
        try:
            nano += observed_quantity(cpu)
        except QuantityError:
            return None
    return nano // 1_000_000


kind = EvidenceKind("pod-cpu", asks, reads, everywhere=True)

"""Any server behind an Envoy or Istio sidecar: its number of requests, and whether a websocket is open.

Counters show activity between two probes, not its time; :mod:`~bus.notebooks.memory` turns a change into a time.
With Istio only requests from the ingress gateway count, so neither this prober nor a neighbor counts as the user; a
plain Envoy does not know the client, so there the counters of all its listeners except its own admin's count.
Counters of websockets move when they close, hence the gauge of open ones: presence, with its own longer limit.

Source: docs/culling.md (kubeflow/kubeflow PR 6927; istio/istio 48563); Envoy, HTTP connection manager statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from bus.events.notebooks import Evidence
from bus.notebooks.contract import EvidenceKind, Peer, Reply
from bus.notebooks.exposition import values
from bus.notebooks.prober import ProbeResponse, ProbeTarget
from bus.notebooks.readings import malformed, unread

SOURCE = "http_traffic"
GATEWAY = "istio-ingressgateway"

_ISTIO = "istio_requests_total"
_REQUESTS = "envoy_http_downstream_rq_total"
_WEBSOCKETS = "envoy_http_downstream_cx_upgrades_active"
_PREFIX = "envoy_http_conn_manager_prefix"
#: Envoy's own listeners: its admin interface, and Istio's for metrics and health.
_OWN = frozenset({"admin", "stats", "agent"})
#: Without it, the counters of a mesh can be larger than an answer may be.
_FILTER = "istio_requests_total%7Cdownstream_rq_total%7Cdownstream_cx_upgrades_active"


def asks(peer: Peer) -> tuple[ProbeTarget, ...]:
    """The sidecar's counters, where there is one."""
    if not peer.counters_port:
        return ()
    return (ProbeTarget(peer.address, peer.counters_port, f"/stats/prometheus?filter={_FILTER}"),)


def reads(replies: Sequence[Reply], peer: Peer, observed_us: int) -> tuple[Evidence, ...]:
    """The sum of requests and of open websockets. An answer without any such counter is not understood."""
    reply = replies[0]
    missing = unread(SOURCE, reply)
    if missing is not None or not isinstance(reply, ProbeResponse):
        return (missing or malformed(SOURCE, ""),)
    sums = dict[str, Decimal]()
    for name, labels, value in values(reply.body, frozenset({_ISTIO, _REQUESTS, _WEBSOCKETS})):
        if labels.get(_PREFIX) in _OWN:
            continue
        if name == _ISTIO and labels.get("source_workload") != GATEWAY:
            value = Decimal()
        sums[name] = sums.get(name, Decimal()) + value
    requests = sums.get(_ISTIO, sums.get(_REQUESTS))
    if requests is None:
        return (malformed(SOURCE, "no_counters"),)
    websockets = int(sums.get(_WEBSOCKETS, 0))
    counters = {"requests": int(requests), "websockets": websockets}
    return (Evidence(source=SOURCE, connected=websockets > 0, counters=counters),)


kind = EvidenceKind("traffic", asks, reads, everywhere=True)

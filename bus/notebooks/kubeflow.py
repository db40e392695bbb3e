"""Jupyter kernels as Kubeflow's own culler reads them: used under its rules. Under Bursar's own rules it is asked
only if an owner names it, and may protect a notebook, never stop one.

It differs from :mod:`~bus.notebooks.jupyter` wherever the culler differs: a stamp ahead of the clock is accepted,
one without a zone spoils the answer, an empty list is an answer, a kernel that starts is busy, no token is sent.
The evidence has only the inputs of its rules: whether all kernels are idle, and their newest stamp with its offset.

Source: docs/culling.md (culling_controller.go lines 204 to 307).
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.events.notebooks import Evidence
from bus.go_time import Stamp
from bus.notebooks.contract import NOTEBOOK_NAME, EvidenceKind, Peer, Reply
from bus.notebooks.go_json import SOURCE, all_idle, kernels_in
from bus.notebooks.prober import ProbeResponse, ProbeTarget
from bus.notebooks.readings import malformed, unread


def asks(peer: Peer) -> tuple[ProbeTarget, ...]:
    """The culler's request path, whatever base URL the server has; no request for a pod of another kind."""
    name = peer.labels.get(NOTEBOOK_NAME)
    if not name:
        return ()
    path = f"/notebook/{peer.namespace}/{name}/api/kernels?no_track_activity=1"
    return (ProbeTarget(peer.address, peer.port, path),)


def reads(replies: Sequence[Reply], peer: Peer, observed_us: int) -> tuple[Evidence, ...]:
    """One evidence: not ok = unusable for the culler."""
    reply = replies[0]
    kernels = kernels_in(reply) if isinstance(reply, ProbeResponse) else None
    if kernels is None:
        return (unread(SOURCE, reply) or malformed(SOURCE, "not_kernels"),)
    stamps = [Stamp.parse(kernel.last_activity) for kernel in kernels]
    known = [stamp for stamp in stamps if stamp is not None]
    busy = not all_idle([kernel.execution_state for kernel in kernels])
    counters = {"kernels": len(kernels)}
    if busy or not known or len(known) < len(stamps):
        return (Evidence(source=SOURCE, busy=busy, counters=counters),)
    # The first of equal instants, as a strict comparison finds it: its offset is written.
    newest = max(known, key=lambda stamp: stamp.ns)
    if newest.offset_minutes:
        counters["offset_minutes"] = newest.offset_minutes
    return (Evidence(source=SOURCE, active_us=newest.ns // 1_000, counters=counters),)


kind = EvidenceKind("kubeflow", asks, reads)

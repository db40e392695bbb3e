"""code-server (VS Code in a browser): the time of its last heartbeat.

It beats on requests and once a minute while a browser is connected; reading ``/healthz`` is no beat. A job in a
terminal of a closed browser does not beat: only GPU and CPU show it.

Source: docs/culling.md; code-server, docs/FAQ ("heartbeat file") and the handler of /healthz.
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.events.notebooks import Evidence
from bus.notebooks.contract import EvidenceKind, Peer, Reply
from bus.notebooks.prober import ProbeResponse, ProbeTarget
from bus.notebooks.readings import accepted, json_of, malformed, unread

SOURCE = "code_server"


def asks(peer: Peer) -> tuple[ProbeTarget, ...]:
    """/healthz: it needs no log-in."""
    return (ProbeTarget(peer.address, peer.port, f"{peer.base_path}healthz"),)


def reads(replies: Sequence[Reply], peer: Peer, observed_us: int) -> tuple[Evidence, ...]:
    """``lastHeartbeat`` in milliseconds, 0 before the first one; ``status`` only repeats its age."""
    reply = replies[0]
    missing = unread(SOURCE, reply)
    if missing is not None or not isinstance(reply, ProbeResponse):
        return (missing or malformed(SOURCE, ""),)
    found = json_of(reply.body)
    beat_ms = found.get("lastHeartbeat") if isinstance(found, dict) else None
    if type(beat_ms) is not int or beat_ms < 0:
        return (malformed(SOURCE, "no_heartbeat"),)
    if beat_ms == 0:
        return (Evidence(source=SOURCE),)
    active_us, flag = accepted(beat_ms * 1_000, peer, observed_us)
    return (Evidence(source=SOURCE, active_us=active_us, flags=(flag,) if flag else ()),)


kind = EvidenceKind("code-server", asks, reads, images=("*code-server*", "*codeserver*"))

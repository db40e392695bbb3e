"""Jupyter servers: kernels and terminals.

``/api/status`` is not asked: its ``last_activity`` moves with every read, this prober's included. Every request has
``no_track_activity=1``, so other cullers do not count it either.

- Only ``idle`` is idle. ``starting`` without a connection is the server's own doing; every other state, an unknown
  word, null and a number included, is busy.
- A kernel's unreadable stamp spoils the answer, unless another kernel is busy: busy is enough.
- No kernels say nothing by themselves: they count beside a readable answer about terminals only, or where the server has
  terminals switched off (404 beside a readable list of kernels).

Source: docs/culling.md (measured on jupyter_server 2.21); docs/wrong-input.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bus.events.notebooks import Evidence
from bus.notebooks.contract import EvidenceKind, Peer, Reply
from bus.notebooks.prober import ProbeResponse, ProbeTarget
from bus.notebooks.readings import MOST_ENTRIES, json_of, malformed, stamped, unread

KERNELS = "jupyter_kernels"
TERMINALS = "jupyter_terminals"


def asks(peer: Peer) -> tuple[ProbeTarget, ...]:
    """Kernels first, then terminals."""
    return tuple(
        ProbeTarget(
            peer.address, peer.port, f"{peer.base_path}api/{what}?no_track_activity=1", peer.token
        )
        for what in ("kernels", "terminals")
    )


def reads(replies: Sequence[Reply], peer: Peer, observed_us: int) -> tuple[Evidence, ...]:
    """Evidence of kernels, and of terminals unless the server has none to offer."""
    kernels = _kernels(replies[0], peer, observed_us)
    if (
        kernels.outcome == "ok"
        and isinstance(replies[1], ProbeResponse)
        and replies[1].status == 404
    ):
        return (kernels,)
    terminals = _terminals(replies[1], peer, observed_us)
    says_nothing = kernels.outcome == "ok" and kernels.counters["kernels"] == 0
    if says_nothing and terminals.outcome != "ok":
        kernels = malformed(KERNELS, "no_kernels")
    return kernels, terminals


def _entries(source: str, reply: Reply) -> list[dict[str, Any]] | Evidence:
    missing = unread(source, reply)
    if missing is not None or not isinstance(reply, ProbeResponse):
        return missing or malformed(source, "")
    found = json_of(reply.body)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        return malformed(source, "not_a_list")
    return found if len(found) <= MOST_ENTRIES else malformed(source, "too_many")


def _kernels(reply: Reply, peer: Peer, observed_us: int) -> Evidence:
    entries = _entries(KERNELS, reply)
    if isinstance(entries, Evidence):
        return entries
    stamps = [stamped(entry.get("last_activity"), peer, observed_us) for entry in entries]
    states = [_state(entry) for entry in entries]
    flags = tuple(sorted({flag for _, flag in stamps if flag}))
    busy = states.count("busy")
    if not busy and any(us is None for us, _ in stamps):
        return malformed(KERNELS, "no_time", flags)
    known = list(zip(states, (us for us, _ in stamps if us is not None), strict=False))
    return Evidence(
        source=KERNELS,
        busy=busy > 0,
        active_us=None
        if busy
        else max((us for state, us in known if state == "idle"), default=None),
        starting_since_us=None
        if busy
        else max((us for state, us in known if state == "starting"), default=None),
        connected=any(_connections(entry) for entry in entries),
        counters={"kernels": len(entries), "busy": busy},
        flags=flags,
    )


def _state(entry: dict[str, Any]) -> str:
    state = entry.get("execution_state")
    if state == "starting" and not _connections(entry):
        return "starting"
    return "idle" if state == "idle" else "busy"


def _connections(entry: dict[str, Any]) -> bool:
    """Whether anybody is connected; an invalid number counts as connected."""
    count = entry.get("connections", 0)
    return count != 0 or type(count) is not int


def _terminals(reply: Reply, peer: Peer, observed_us: int) -> Evidence:
    entries = _entries(TERMINALS, reply)
    if isinstance(entries, Evidence):
        return entries
    stamps = [stamped(entry.get("last_activity"), peer, observed_us) for entry in entries]
    times = [us for us, _ in stamps if us is not None]
    if len(times) < len(entries):
        return malformed(TERMINALS, "no_time")
    return Evidence(
        source=TERMINALS,
        active_us=max(times, default=None),
        counters={"terminals": len(entries)},
        flags=tuple(sorted({flag for _, flag in stamps if flag})),
    )


kind = EvidenceKind("jupyter", asks, reads, images=("*jupyter*", "*notebook*", "*lab*"))

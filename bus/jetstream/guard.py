"""The start-up guard: checks this bus for the properties needed to lose no acknowledged event.

Pure comparison of the server's answers (stream info, greeting, `/varz`) with Bursar's needs. Two switches have to
agree for durability: the server's `sync_interval: always`, reported only by its system account or its monitoring
port, and the stream's `persist_mode`, a silent override of it (docs/reliability.md).

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import http.client
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bus.errors import UnsafeBusError
from bus.jetstream.system_account import SCHEMES, server_state
from bus.jetstream.tls import Tls
from bus.streams import Stream

#: The oldest nats-server with measured atomic batches, header checks and disk formats.
PINNED_VERSION = (2, 14)

#: The longest time until this code repeats an id: five attempts of 5 s and a reconnect, with room.
RETRY_HORIZON_SECONDS = 120

#: The beginning of a stream is never trimmed by a shorter age.
LEAST_AGE_SECONDS = 86_400

_NANO = 1_000_000_000
_MONITOR_SECONDS = 3.0
_MONITOR_BYTES = 4 * 1024 * 1024


class Safety(StrEnum):
    """The safety of one property. UNSAFE refuses to start; UNKNOWN and WEAK are shown."""

    OK = "OK"
    WEAK = "WEAK"
    UNKNOWN = "UNKNOWN"
    UNSAFE = "UNSAFE"


class GuardLine(msgspec.Struct, frozen=True):
    """One property of the bus: found, wanted, and a stable code for alarms and docs."""

    property: str
    state: Safety
    found: str
    wanted: str
    code: str


def guard_lines(
    stream: Stream,
    info: Mapping[str, Any],
    server: Mapping[str, Any],
    varz: Sequence[Mapping[str, Any] | None],
) -> list[GuardLine]:
    """The lines of a stream, in a fixed order.

    `info` is JetStream's stream info, `server` the greeting of the connected server, `varz` each server's answer
    (None = no answer).
    """
    config: Mapping[str, Any] = info.get("config", {})
    fixed = {name: (config.get(name, default), want, bad) for name, default, want, bad in _FIXED}
    if config.get("num_replicas", 1) > 1:
        # Three servers killed in turn lost stored events of a compressed stream (nats-server 2.15).
        fixed["compression"] = (config.get("compression", "none"), "none", Safety.UNSAFE)
    if stream.mirrored_domain:
        # A mirror has no publishers, so their needs are not checked there.
        del fixed["allow_atomic"]
        fixed["mirror"] = (_domain(config), stream.mirrored_domain, Safety.UNSAFE)
    lines = [
        _version(server),
        _sync(stream, varz),
        *(_equal(name, *wanted) for name, wanted in fixed.items()),
        _age(config),
        _subjects(stream, config),
        _replicas(stream, info),
        _message_size(stream, config),
    ]
    return lines if stream.mirrored_domain else [*lines[:-1], _window(stream, config), lines[-1]]


def _domain(config: Mapping[str, Any]) -> str:
    """The domain of the history mirrored by a stream; "" for any other."""
    found = config.get("mirror") or {}
    api = (found.get("external") or {}).get("api", "")
    is_whole = set(found) <= {"name", "external"} and found.get("name") == "HISTORY"
    return api.removeprefix("$JS.").removesuffix(".API") if is_whole else ""


def require_safe(lines: Sequence[GuardLine]) -> None:
    """Raise UnsafeBusError naming the first unsafe property, its code, found and wanted value."""
    for line in lines:
        if line.state is Safety.UNSAFE:
            raise UnsafeBusError(
                property=line.property, found=line.found, wanted=line.wanted, code=line.code
            )


#: Property, value when absent, wanted value, state otherwise. Each UNSAFE one can lose or alter
#: said events.
_FIXED: tuple[tuple[str, object, object, Safety], ...] = (
    ("persist_mode", "default", "default", Safety.UNSAFE),
    ("storage", "", "file", Safety.UNSAFE),
    ("retention", "limits", "limits", Safety.UNSAFE),
    ("discard", "old", "new", Safety.UNSAFE),
    ("max_msgs", -1, -1, Safety.UNSAFE),
    ("max_bytes", -1, -1, Safety.UNSAFE),
    ("max_msgs_per_subject", -1, -1, Safety.UNSAFE),
    ("deny_delete", False, True, Safety.UNSAFE),
    ("deny_purge", False, True, Safety.UNSAFE),
    ("allow_rollup_hdrs", False, False, Safety.UNSAFE),
    ("allow_msg_ttl", False, False, Safety.UNSAFE),
    ("allow_msg_counter", False, False, Safety.UNSAFE),
    ("allow_msg_schedules", False, False, Safety.UNSAFE),
    ("no_ack", False, False, Safety.UNSAFE),
    ("sealed", False, False, Safety.UNSAFE),
    ("mirror", None, None, Safety.UNSAFE),
    ("sources", None, None, Safety.UNSAFE),
    ("subject_transform", None, None, Safety.UNSAFE),
    # Windows are atomic batches: without them there is no all-or-nothing.
    ("allow_atomic", False, True, Safety.UNSAFE),
    # Only slower: the leader answers instead of any replica.
    ("allow_direct", False, True, Safety.WEAK),
    # Only larger: events take four times the room.
    ("compression", "none", "s2", Safety.WEAK),
)


def _line(name: str, state: Safety, found: object, wanted: object) -> GuardLine:
    code = "bus-" + name.replace("_", "-")
    return GuardLine(name, state, str(found)[:200], str(wanted), code)


def _equal(name: str, found: object, wanted: object, bad: Safety) -> GuardLine:
    shown = "none" if found is None else found
    state = Safety.OK if found == wanted or (not found and not wanted) else bad
    return _line(name, state, shown, "none" if wanted is None else wanted)


def _age(config: Mapping[str, Any]) -> GuardLine:
    """An age of a day or more belongs to a trimming, or to an interrupted one: sealed events are older."""
    seconds = int(config.get("max_age", 0)) // _NANO
    if not config.get("max_age"):
        return _line("max_age", Safety.OK, 0, 0)
    state = Safety.WEAK if seconds >= LEAST_AGE_SECONDS else Safety.UNSAFE
    return _line("max_age", state, f"{seconds} s", 0)


def _version(server: Mapping[str, Any]) -> GuardLine:
    found = str(server.get("version", ""))
    wanted = ">= " + ".".join(map(str, PINNED_VERSION))
    parts = re.match(r"v?(\d{1,4})\.(\d{1,4})", found)
    if parts is None:
        return _line("version", Safety.UNKNOWN, found or "not told", wanted)
    new_enough = (int(parts[1]), int(parts[2])) >= PINNED_VERSION
    return _line("version", Safety.OK if new_enough else Safety.UNSAFE, found, wanted)


def _sync(stream: Stream, varz: Sequence[Mapping[str, Any] | None]) -> GuardLine:
    """Every server must flush before it acknowledges; an unasked one leaves it unknown."""
    answers = [answer for answer in varz if answer is not None]
    syncs = [_synced(answer) for answer in answers]
    if not all(syncs):
        return _line("sync_interval", Safety.UNSAFE, "default", "always")
    servers = {answer.get("server_id", index) for index, answer in enumerate(answers)}
    if len(answers) < len(varz) or len(servers) < stream.replicas:
        found = f"{len(servers)} of {max(stream.replicas, len(varz))} servers told"
        return _line("sync_interval", Safety.UNKNOWN, found, "always")
    return _line("sync_interval", Safety.OK, "always", "always")


def _synced(varz: Mapping[str, Any]) -> bool:
    config = (varz.get("jetstream") or {}).get("config") or {}
    return bool(config.get("sync_always", False))


def _subjects(stream: Stream, config: Mapping[str, Any]) -> GuardLine:
    found, wanted = sorted(config.get("subjects") or ()), sorted(stream.subjects)
    state = Safety.OK if found == wanted else Safety.UNSAFE
    return _line("subjects", state, " ".join(found) or "none", " ".join(wanted))


def _replicas(stream: Stream, info: Mapping[str, Any]) -> GuardLine:
    config: Mapping[str, Any] = info.get("config", {})
    count = int(config.get("num_replicas", 1))
    if count < stream.replicas:
        return _line("num_replicas", Safety.UNSAFE, count, stream.replicas)
    peers = (info.get("cluster") or {}).get("replicas") or ()
    behind = [peer.get("name", "?") for peer in peers if not peer.get("current", False)]
    if behind:
        return _line("num_replicas", Safety.WEAK, "behind: " + " ".join(behind), stream.replicas)
    return _line("num_replicas", Safety.OK, count, stream.replicas)


def _window(stream: Stream, config: Mapping[str, Any]) -> GuardLine:
    seconds = int(config.get("duplicate_window", 0)) // _NANO
    state = Safety.OK
    if seconds < stream.duplicate_window_seconds:
        state = Safety.WEAK if seconds >= RETRY_HORIZON_SECONDS else Safety.UNSAFE
    return _line("duplicate_window", state, f"{seconds} s", f"{stream.duplicate_window_seconds} s")


def _message_size(stream: Stream, config: Mapping[str, Any]) -> GuardLine:
    found = int(config.get("max_msg_size", -1))
    wanted = stream.max_message_bytes
    state = Safety.OK if found == wanted else Safety.WEAK
    return _line("max_msg_size", state, "none" if found < 0 else found, wanted)


async def varz_of(monitor_url: str, tls: Tls | None) -> dict[str, Any] | None:
    """`/varz` of one server, past any proxy of the environment; None when it cannot be had.

    `monitor_url` is its monitoring port, or `nats://` with a user of its system account.
    """
    if urlsplit(monitor_url).scheme in SCHEMES:
        return await server_state(monitor_url, "VARZ", tls=tls)
    return await asyncio.to_thread(_told, monitor_url, "/varz")


async def refusal_of(monitor_url: str, tls: Tls | None) -> str:
    """The reason of an unhealthy server, such as a failed write on a full disk; "" = healthy, or without an answer."""
    if urlsplit(monitor_url).scheme in SCHEMES:
        told = await server_state(monitor_url, "HEALTHZ", tls=tls)
    else:
        told = await asyncio.to_thread(_told, monitor_url, "/healthz")
    found = told or {}
    return "" if found.get("status", "ok") == "ok" else str(found.get("error") or found["status"])


def _told(monitor_url: str, path: str) -> dict[str, Any] | None:
    parts = urlsplit(monitor_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port or 8222, timeout=_MONITOR_SECONDS)
    try:
        connection.request("GET", parts.path.rstrip("/") + path)
        answer = connection.getresponse().read(_MONITOR_BYTES)
        decoded = msgspec.json.decode(answer)
    except (OSError, http.client.HTTPException, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        connection.close()
    return decoded if isinstance(decoded, dict) else None

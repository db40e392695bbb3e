"""A notebook server's answer, read as Go's ``encoding/json`` reads it into the culler's structs.

Field names match in any case, the last one wins, null and absent are the empty value, text after the first JSON
value is ignored; one wrong type spoils the whole answer. None = no usable answer.

Source: docs/culling.md; culling_controller.go, KernelStatus and TerminalStatus.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from bus.events.notebooks import Evidence
from bus.go_time import Stamp

if TYPE_CHECKING:
    from bus.notebooks.prober import ProbeResponse

#: The evidence from these answers by the culler's rules.
SOURCE = "kubeflow_kernels"
_INT64 = range(-(2**63), 2**63)
_KERNEL = {"id": str, "name": str, "last_activity": str, "execution_state": str, "connections": int}
_TERMINAL = {"name": str, "last_activity": str}


class Kernel(msgspec.Struct, frozen=True):
    """One entry of /api/kernels, or of /api/terminals (without states)."""

    last_activity: str = ""
    execution_state: str = ""


def kernels_in(reply: ProbeResponse | None) -> list[Kernel] | None:
    """The kernels of /api/kernels; None when the culler would not know them."""
    return _entries(reply, _KERNEL)


def terminals_in(reply: ProbeResponse | None) -> list[Kernel] | None:
    """The terminals of /api/terminals; None when the culler would not know them."""
    return _entries(reply, _TERMINAL)


def all_idle(states: Sequence[str]) -> bool:
    """Whether every state is exactly `idle`; so it is without any kernel."""
    return all(state == "idle" for state in states)


def _entries(reply: ProbeResponse | None, fields: Mapping[str, type]) -> list[Kernel] | None:
    if reply is None or reply.status != 200:
        return None
    value = go_value(reply.body)
    if not isinstance(value, list):
        return None
    entries = [go_struct(item, fields) for item in value]
    if any(entry is None for entry in entries):
        return None
    return [
        Kernel(entry.get("last_activity", ""), entry.get("execution_state", ""))
        for entry in entries
        if entry is not None
    ]


def go_value(raw: bytes) -> Any:
    """The first JSON value of ``raw``; None when there is none, or null."""
    try:
        text = raw.decode("utf-8", "replace").lstrip(" \t\r\n")
        return _first_value(text)[0]
    except (ValueError, RecursionError):
        return None


def go_struct(item: object, fields: Mapping[str, type]) -> dict[str, Any] | None:
    """The known fields of a JSON object, by their lower-case name; None when a type is wrong."""
    if item is None:
        return {}
    if not isinstance(item, dict):
        return None
    found: dict[str, Any] = {}
    for key, value in item.items():
        wanted = fields.get(key.lower())
        if wanted is None or value is None:
            continue
        if type(value) is not wanted or (wanted is int and value not in _INT64):
            return None
        found[key.lower()] = value
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)


# Python reads NaN and Infinity, Go does not.
_first_value = json.JSONDecoder(parse_constant=_refuse).raw_decode


def kernels_of(evidence: Evidence) -> list[Kernel] | None:
    """Kernels with the answer's meaning under the culler's rules; None = unusable for it."""
    if evidence.outcome != "ok":
        return None
    if not evidence.counters.get("kernels"):
        return []
    if evidence.busy:
        return [Kernel("", "busy")]
    if evidence.active_us is None:
        return [Kernel("", "idle")]
    newest = Stamp(evidence.active_us * 1_000, evidence.counters.get("offset_minutes", 0))
    return [Kernel(newest.text(), "idle")]

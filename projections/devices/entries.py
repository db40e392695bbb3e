"""The cards of a held segment by model.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec


class CardEntry(NamedTuple):
    """Cards of one model (None: unknown), in thousandths, with device memory in MiB."""

    model: str | None
    gpu_milli: int
    gpu_memory_mib: int


_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, int]).decode


def merged(entries: Iterable[tuple[str | None, int, int]]) -> tuple[CardEntry, ...]:
    """One entry for each model, by name; those of nothing are left out."""
    found: dict[str | None, tuple[int, int]] = {}
    for model, milli, memory in entries:
        known = found.get(model, (0, 0))
        found[model] = (known[0] + milli, known[1] + memory)
    return tuple(
        CardEntry(model, milli, memory)
        for model, (milli, memory) in sorted(found.items(), key=lambda one: one[0] or "")
        if milli or memory
    )


def cards_text(entries: tuple[CardEntry, ...]) -> str:
    """Model to thousandths of a card as a JSON object; "" where one amount and one model say all."""
    if len(entries) < 2:
        return ""
    return _encode({one.model or "": one.gpu_milli for one in entries}).decode()


def memory_text(entries: tuple[CardEntry, ...]) -> str:
    """Model to MiB of device memory as a JSON object; "" where none is known."""
    found = {one.model or "": one.gpu_memory_mib for one in entries if one.gpu_memory_mib}
    return _encode(found).decode() if found else ""


def of_segment(
    model: str | None, gpu_milli: int, devices: str, device_memory: str
) -> tuple[CardEntry, ...]:
    """The entries of a segment with these columns."""
    if not (gpu_milli or devices or device_memory):
        return ()
    cards = _decode(devices) if devices else {model or "": gpu_milli}
    memory = _decode(device_memory) if device_memory else {}
    return tuple(
        CardEntry(name or None, milli, memory.get(name, 0)) for name, milli in cards.items()
    )

"""Koordinator's annotation for its node agent: the parts of devices of a pod. Pure.

Source: koordinator-sh/koordinator, apis/extension DeviceAllocations; docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bus.events.devices import FIRST, MOST_MINORS, device_name
from reactors.scheduling.columns.device_requests import MEMORY
from reactors.scheduling.devices.boards import Board
from reactors.scheduling.devices.rules import Part, filled

_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


class _Allocation(msgspec.Struct, omit_defaults=True):
    """A part of a device, with its fields in Koordinator's order."""

    minor: int
    resources: dict[str, str]
    id: str = ""
    extension: dict[str, list[dict[str, str]]] | None = None


def allocated(board: Board, parts: Mapping[str, Part], devices: Sequence[int]) -> str:
    """The text for a pod with ``parts`` on ``devices`` of a node; "" for a pod without any."""
    ids = (
        {(one.type, one.minor): one.id for one in board.observed.devices} if board.observed else {}
    )
    found: dict[str, list[_Allocation]] = {}
    for kind in sorted(parts):
        first, part = FIRST[kind], parts[kind]
        memory = {card.minor: card.total.get(MEMORY, 0) for card in board.total[kind]}
        minors = [one - first for one in devices if first <= one < first + MOST_MINORS]
        if not part.is_on(len(minors)):
            continue
        found[kind] = [
            _Allocation(
                minor, _written(filled(part.amounts, memory.get(minor, 0))), ids.get((kind, minor), ""),
                _functions(board, kind, minor, devices),
            )
            for minor in minors
        ]  # fmt: skip
    return msgspec.json.encode(found).decode() if found else ""


def _functions(
    board: Board, kind: str, minor: int, devices: Sequence[int]
) -> dict[str, list[dict[str, str]]] | None:
    own = {one for _, several in board.functions.get((kind, minor), ()) for one in several}
    found = [{"busID": device_name(one)} for one in devices if one in own]
    return {"vfs": found} if found else None


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {
        name: _bytes(amounts[name]) if name == MEMORY else str(amounts[name])
        for name in sorted(amounts)
    }


def _bytes(amount: int) -> str:
    """The text of Kubernetes: the largest unit dividing the amount."""
    at = 0
    while amount and amount % 1024 == 0 and at < len(_UNITS) - 1:
        amount, at = amount // 1024, at + 1
    return f"{amount}{_UNITS[at]}"

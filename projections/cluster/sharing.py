"""Rows of a snapshot, made as compact as rows that are made from facts. Pure but for the rows."""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern
from typing import Any

import msgspec

from bus.events.pods import Owner
from projections.cluster.rows import Pod, Workload


def share(rows: Iterable[Pod | Workload]) -> None:
    """Hold what many rows say as one object in memory."""
    texts: dict[tuple[tuple[str, Any], ...], dict[str, Any]] = {}
    owners: dict[Owner, Owner] = {}
    constraints: dict[bytes, Any] = {}

    def one(found: dict[str, Any]) -> dict[str, Any]:
        key = tuple(found.items())
        before = texts.get(key)
        if before is None:
            before = texts[key] = {intern(name): _interned(value) for name, value in key}
        return before

    for row in rows:
        row.namespace = intern(row.namespace)
        row.labels, row.annotations = one(row.labels), one(row.annotations)
        if row.owner is not None:
            row.owner = owners.setdefault(row.owner, row.owner)
        if isinstance(row, Workload):
            row.kind = intern(row.kind)
            continue
        row.phase, row.node, row.team = intern(row.phase), intern(row.node), intern(row.team)
        row.demand = one(row.demand)
        if row.constraints is not None:
            said = msgspec.msgpack.encode(row.constraints)
            row.constraints = constraints.setdefault(said, row.constraints)


def _interned(value: Any) -> Any:
    return intern(value) if isinstance(value, str) else value

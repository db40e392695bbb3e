"""``bursar devices``: card by card, the holder of each part and its start, reserved parts, and idle parts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import sqlalchemy as sa
import typer

from deploy.cli.filters import Model, Node, Team
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import memory, moment, thousandths
from deploy.runtime.ledgers import reading
from projections.devices.sizes import WHOLE
from projections.inventory.node_supply import supply

_QUERY = (
    "SELECT s.cluster, s.node, s.card, s.device, s.model, s.kind AS state, s.gpu_milli, s.gpu_memory_mib,"
    " s.namespace, p.name AS pod, s.pod_uid, s.claim, s.claim_uid, CASE WHEN s.kind = 'held' THEN p.team ELSE s.team END AS team,"
    " s.start_at AS since, s.sequence"
    " FROM v1_device_segments s LEFT JOIN v1_pod_runs p ON p.uid = s.pod_uid WHERE s.end_s IS NULL"
)
_SUPPLY = "SELECT cluster, node, card, model, sequence FROM card_supply WHERE end_s IS NULL"
_FIELDS = (
    "cluster", "node", "card", "device", "model", "state", "gpu_milli", "gpu_memory_mib", "namespace", "pod",
    "pod_uid", "claim", "claim_uid", "team", "since", "sequence",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "devices", question=True)(devices)


def devices(
    asked: CommandContext, node: Node = None, model: Model = None, team: Team = None
) -> None:
    """GPU cards of each node: holders, reserved and idle parts.

    Sources: ResourceSlices, claims, KAI's sharing, and Koordinator's rules (DeviceShare). STATE `held`: the pod HOLDER has the
    part. `reserved`: the claim HOLDER has it, without a running pod. `unknown`: a pod held the part, and its end was not
    observed. `idle`: the part is free. `plugin`: GPUs of a device plugin, which does not report the cards of each pod; see
    `bursar acct --node`. `v1_device_usage` has the cards of ResourceSlices by day.

    \b
    bursar devices
    bursar devices --node gpu-7 -o wide
    bursar devices --team vision -o json
    """
    with reading(asked.place) as connection:
        stands = standing(connection)
        rows = _rows(connection)
    kept = {"node": node, "model": model, "team": team}
    rows = [row for row in rows if all(v in (None, row[name]) for name, v in kept.items())]
    counts = {
        state: sum(row["gpu_milli"] for row in rows if row["state"] == state) for state in _STATES
    }
    states = [
        f"{milli / WHOLE:,.3f}".rstrip("0").rstrip(".") + f" {state}"
        for state, milli in counts.items()
        if milli
    ]
    notes = [f"cards: {', '.join(states)}"] if states else []
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes + footer(stands.sequence, stands.observed_s))  # fmt: skip


_STATES = ("held", "reserved", "unknown", "idle", "plugin")


def _rows(connection: sa.Connection) -> list[dict[str, Any]]:
    """The holders of parts of each card now, and a row for the idle part of one in a slice."""
    rows: list[dict[str, Any]] = [
        dict(row) for row in connection.execute(sa.text(_QUERY)).mappings()
    ]
    taken: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        taken[row["cluster"], row["card"]] += row["gpu_milli"]
    for one in connection.execute(sa.text(_SUPPLY)).mappings():
        left = WHOLE - taken[one["cluster"], one["card"]]
        if left > 0:
            rows.append(dict.fromkeys(_FIELDS) | dict(one) | {"state": "idle", "gpu_milli": left})
    for offer in supply(lambda query: [tuple(row) for row in connection.execute(query)]):
        if offer.by_plugin > offer.by_slices:
            known = {"cluster": offer.cluster, "node": offer.node, "card": offer.vendor}
            rows.append(
                dict.fromkeys(_FIELDS) | known | {"state": "plugin", "gpu_milli": offer.by_plugin}
            )
    return sorted(rows, key=_place)


def _place(row: Row) -> tuple[Any, ...]:
    return (
        row["cluster"], row["node"], row["card"], _STATES.index(row["state"]),
        row["since"] or "", row["pod_uid"] or "", row["claim_uid"] or "",
    )  # fmt: skip


def _holder(row: Row) -> str | None:
    """The pod that holds the part, else the claim that has it."""
    name = row["pod"] or row["claim"]
    return f"{row['namespace']}/{name}" if name else None


_COLUMNS = (
    field("NODE"),
    Column("CARD", lambda row: row["card"].rpartition("/")[2]),
    field("MODEL", drop=2),
    field("STATE"),
    field("GPUS", "gpu_milli", show=thousandths),
    Column("HOLDER", _holder),
    field("TEAM", drop=1),
    field("SINCE", show=moment),
    field("MEMORY", "gpu_memory_mib", wide=True, show=memory),
    field("DEVICE", wide=True),
    field("CLAIM", wide=True),
    Column("WHOLE CARD", lambda row: row["card"], wide=True),
    field("CLUSTER", wide=True),
)

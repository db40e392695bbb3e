"""The account of one pod at a moment: waiting, held segments, unknown time, flags.

The rows behind `bursar acct`, and the control sum of every aggregate.

Source: docs/accounting.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from projections.devices.entries import of_segment
from projections.pod_runs import held_segments, pod_runs

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]


class Holding(msgspec.Struct, frozen=True):
    """One segment as of a moment: [start_s, end_s), closed there if it is open."""

    start_s: int
    end_s: int
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    extended: str
    team: str
    user: str
    node: str
    model: str | None
    quota: str
    cpu_type: str
    gpu_type: str
    memory_type: str
    devices: str
    device_memory: str
    sequence: int


def of_model(holding: Holding, model: str) -> Holding:
    """The part of ``model`` in a segment with several models: its cards; CPU and memory count with the first."""
    entries = of_segment(holding.model, holding.gpu_milli, holding.devices, "")
    found = next((one for one in entries if one.model == model), None)
    if found is None:
        return holding
    held = msgspec.structs.replace(holding, model=model, gpu_milli=found.gpu_milli)
    return held if found is entries[0] else msgspec.structs.replace(held, cpu_milli=0, memory_mib=0)


class Account(msgspec.Struct, frozen=True):
    """One pod as of a moment. All seconds whole. ``is_open``: the pod is bound or waiting at that moment."""

    uid: str
    cluster: str
    namespace: str
    name: str
    workload: str
    phase: str
    created_s: int
    waiting_s: int
    unknown_s: int
    is_open: bool
    flags: tuple[str, ...]
    labels: dict[str, str]
    holdings: tuple[Holding, ...]
    sequence: int


_flags = msgspec.json.Decoder(tuple[str, ...])
_labels = msgspec.json.Decoder(dict[str, str])


def accounts(
    select: Select,
    *,
    as_of_s: int,
    where: tuple[sa.ColumnElement[bool], ...] = (),
    moments: Mapping[str, int] | None = None,
) -> list[Account]:
    """The account of every pod created before ``as_of_s``, by creation and uid.

    Events at or after that second are not in it: a run ended later is open, a segment begun later is missing.
    ``moments``: cluster to the second of its last observation; open intervals end there, and the time from then on
    is unknown.
    """
    known = moments or {}
    runs = pod_runs.c
    chosen = (runs.created_s <= as_of_s, *where)
    columns = (
        runs.uid, runs.cluster, runs.namespace, runs.name, runs.workload, runs.phase, runs.created_s,
        runs.start_s, runs.end_s, runs.unknown_s, runs.flags, runs.labels, runs.sequence,
    )  # fmt: skip
    held: dict[str, list[Holding]] = defaultdict(list)
    segments = held_segments.c
    query = sa.select(held_segments).where(
        segments.start_s < as_of_s, segments.uid.in_(sa.select(runs.uid).where(*chosen))
    )
    for row in select(query.order_by(segments.uid, segments.start_s)):
        uid, start_s, end_s, *amounts, cluster = row[:8]
        known_s = min(as_of_s, known.get(cluster, as_of_s))
        end_s = max(known_s, start_s) if end_s is None else min(end_s, as_of_s)
        held[uid].append(Holding(start_s, end_s, *amounts, *row[10:21]))
    rows = select(sa.select(*columns).where(*chosen).order_by(runs.created_s, runs.uid))
    return [
        _account(row, tuple(held[row[0]]), as_of_s, min(as_of_s, known.get(row[1], as_of_s)))
        for row in rows
    ]


def _account(
    row: tuple[Any, ...], holdings: tuple[Holding, ...], as_of_s: int, known_s: int
) -> Account:
    uid, cluster, namespace, name, workload, phase, *seconds, flags, labels, sequence = row
    created_s, start_s, end_s, unknown_s = seconds
    is_open = end_s is None or end_s > as_of_s
    # A pod without an end exists up to the last observation of its cluster.
    last_s = as_of_s if end_s is not None else max(known_s, created_s)
    stops = [second for second in (start_s, end_s, last_s) if second is not None]
    waited_until = start_s if start_s is not None and start_s <= as_of_s else min(stops[-2:])
    return Account(
        uid,
        cluster,
        namespace,
        name,
        workload,
        phase,
        created_s,
        waited_until - created_s,
        as_of_s - last_s if is_open else min(unknown_s, as_of_s - end_s),
        is_open,
        _flags.decode(flags),
        _labels.decode(labels),
        holdings,
        sequence,
    )

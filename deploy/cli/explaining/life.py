"""The life of pods without decisions, as the ledger charges it: steps of ``bursar why``.

Source: docs/accounting.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from bus.clock import SECOND_US, format_stamp
from deploy.cli.quotas.finding import Found
from deploy.cli.rendering.words import duration
from projections.pod_runs.shape import pod_runs
from projections.quota_trees.queries import Select


def steps(select: Select, objects: Iterable[Found], observed_s: int) -> Iterator[dict[str, Any]]:
    """The creation, the start and the end of each pod; the time that an open one has waited or held until ``observed_s``."""
    run = pod_runs.c
    columns = (
        run.created_s, run.start_s, run.end_s, run.unknown_s, run.node, run.phase, run.flags, run.sequence,
    )  # fmt: skip
    for pod in objects:
        query = sa.select(*columns).where(run.uid == pod.uid)
        for created_s, start_s, end_s, unknown_s, node, phase, flags, sequence in select(query):
            now_s = max(observed_s, created_s)
            waited = _took(min(filter(None, (start_s, end_s, now_s))) - created_s)
            is_waiting = start_s is None and end_s is None
            yield _step(
                pod,
                created_s,
                "created",
                f"has waited for a node for {waited}" if is_waiting else f"waited {waited}",
            )
            if start_s is not None:
                since = (
                    f"; has held its request for {_took(now_s - start_s)}" if end_s is None else ""
                )
                yield _step(pod, start_s, "started", f"bound to node {node}{since}")
            if end_s is not None:
                held = (
                    f"held its request for {_took(end_s - start_s)}"
                    if start_s is not None
                    else "was never bound"
                )
                unknown = f"; then {_took(unknown_s)} of unknown time" if unknown_s else ""
                flagged = ", ".join(json.loads(flags))
                yield _step(pod, end_s, "ended", f"{held}{unknown}", flagged or phase, sequence)


def _took(seconds: int) -> str:
    return duration(max(seconds, 0)) or "0s"


def _step(
    pod: Found,
    moment_s: int,
    step: str,
    numbers: str,
    reason: str = "",
    sequence: int | None = None,
) -> dict[str, Any]:
    return {
        "sequence": sequence,
        "time": format_stamp(moment_s * SECOND_US),
        "step": step,
        "about": f"Pod {pod.namespace}/{pod.name}",
        "quota": "",
        "reason": reason,
        "numbers": numbers,
        "based_on": None,
        "id": "",
    }

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

_RUN = pod_runs.c
_COLUMNS = (
    _RUN.created_s, _RUN.start_s, _RUN.end_s, _RUN.unknown_s, _RUN.node, _RUN.phase, _RUN.flags,
)  # fmt: skip


def steps(select: Select, objects: Iterable[Found], observed_s: int) -> Iterator[dict[str, Any]]:
    """Creation, start and end of each pod, and how long an open one has waited or held its request at ``observed_s``."""
    for pod in objects:
        for run in select(sa.select(*_COLUMNS).where(_RUN.uid == pod.uid)):
            yield from _steps(f"Pod {pod.namespace}/{pod.name}", max(observed_s, run[0]), *run)


def _steps(
    about: str, now_s: int, created_s: int, start_s: int | None, end_s: int | None, unknown_s: int,
    node: str, phase: str, flags: str,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    if start_s is None and end_s is None:
        yield _step(about, created_s, "created", f"has waited for a node for {_took(now_s - created_s)}")  # fmt: skip
        return
    waited_s = min(one for one in (start_s, end_s) if one is not None) - created_s
    yield _step(about, created_s, "created", f"waited {_took(waited_s)}")
    held = "was never bound"
    if start_s is not None:
        held = f"held its request for {_took((now_s if end_s is None else end_s) - start_s)}"
        open_ = f"; has {held}" if end_s is None else ""
        yield _step(about, start_s, "started", f"bound to node {node}{open_}")
    if end_s is not None:
        unknown = f"; then {_took(unknown_s)} of unknown time" if unknown_s else ""
        reason = ", ".join(json.loads(flags)) or phase
        yield _step(about, end_s, "ended", held + unknown, reason)


def _took(seconds: int) -> str:
    return duration(max(seconds, 0)) or "0s"


def _step(about: str, moment_s: int, step: str, numbers: str, reason: str = "") -> dict[str, Any]:
    return {
        "sequence": None, "time": format_stamp(moment_s * SECOND_US), "step": step, "about": about,
        "quota": "", "reason": reason, "numbers": numbers, "based_on": None, "id": "",
    }  # fmt: skip

"""The webhook in `bursar status`: whether reviews arrive and are decided, as last written by a running `bursar up`."""

from __future__ import annotations

from typing import Any

from bus.clock import SECOND_US
from deploy.cli import times

#: How long a review without a decision makes `bursar status` unhealthy.
FAILING_US = 600 * SECOND_US


def enforces_nothing(admission: dict[str, Any] | None) -> bool:
    """Whether a running `bursar up` shall enforce quotas and no review arrives."""
    return admission is not None and admission["mode"] == "enforce" and bool(admission["problem"])


def is_failing(admission: dict[str, Any] | None, now_us: int) -> bool:
    """Whether a running `bursar up` answered a review without a decision within :data:`FAILING_US`."""
    newest_us: int = _undecided(admission).get("newest_us", 0)
    return bool(newest_us) and now_us - newest_us < FAILING_US


def _undecided(admission: dict[str, Any] | None) -> dict[str, Any]:
    """Empty for a `bursar up` of an earlier version."""
    return (admission or {}).get("undecided") or {}


def admission_lines(admission: dict[str, Any] | None, now_us: int) -> list[str]:
    """Whether reviews are decided and arrive, for people."""
    lines = [_arrival(admission)]
    if is_failing(admission, now_us):
        found = _undecided(admission)
        newest = times.stamp(found["newest_us"] // SECOND_US)
        lines.insert(
            0,
            f"{found['reviews']:,} reviews since the start had no decision, the newest at {newest}: {found['error']} "
            "(the log has each; docs/webhook.md)",
        )
    return lines


def _arrival(admission: dict[str, Any] | None) -> str:
    if admission is None:
        return "no webhook is running"
    where, mode, proven_us = admission["address"], admission["mode"], admission["proven_us"]
    since = f"since {times.stamp(proven_us // SECOND_US)}" if proven_us else "since the start"
    if admission["problem"]:
        return f"{mode}, but no review arrives at {where} {since}: {admission['problem']} (docs/webhook.md)"
    if not proven_us:
        return f"{mode}, and it is not proven yet that reviews arrive at {where}"
    ends_us = admission.get("ends_us", 0)
    ends = f"; its certificates end at {times.stamp(ends_us // SECOND_US)}" if ends_us else ""
    return (
        f"{mode}; reviews arrive at {where}, proven at {times.stamp(proven_us // SECOND_US)}{ends}"
    )

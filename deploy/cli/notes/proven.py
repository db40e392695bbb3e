"""What `bursar status` says of the webhook: whether reviews arrive, as a running `bursar up` proved it last."""

from __future__ import annotations

from typing import Any

from bus.clock import SECOND_US
from deploy.cli import times


def enforces_nothing(admission: dict[str, Any] | None) -> bool:
    """Whether a running `bursar up` shall enforce quotas and no review arrives."""
    return admission is not None and admission["mode"] == "enforce" and bool(admission["problem"])


def admission_line(admission: dict[str, Any] | None) -> str:
    """Whether reviews arrive, for people."""
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

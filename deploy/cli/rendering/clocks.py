"""A check of this machine's clock and the API server's: are they equal, and is either wrong by years?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.clock import SECOND_US, STEP_US, ServerClock, SystemClock
from bus.errors import WrongClockError


def clock_trouble(sources: Mapping[str, Mapping[str, Any]]) -> str:
    """The reason why a clock stops events of a running `bursar up` or of the next one; "" if all is well."""
    trouble = next((s["wrong_clock"] for s in sources.values() if s.get("wrong_clock")), "")
    if trouble:
        return str(trouble)
    try:
        ServerClock(SystemClock()).checked_us()
    except WrongClockError as error:
        return str(error)
    return ""


def clock_offset(sources: Mapping[str, Mapping[str, Any]]) -> str:
    """For people: how far this machine's clock is from the API server's, where it is more than two seconds."""
    offset_us = max((int(s.get("offset_us", 0)) for s in sources.values()), key=abs, default=0)
    if abs(offset_us) <= STEP_US:
        return "ok"
    seconds, how = abs(offset_us) // SECOND_US, "behind" if offset_us > 0 else "ahead of"
    return f"{seconds:,} s {how} the API server's, whose time is written"

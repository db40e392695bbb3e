"""A time in which a pod ran on record and not under trial, or the other way round."""

from __future__ import annotations

import msgspec

from bus.events.decisions import Decision


class Span(msgspec.Struct):
    """``is_saved``: on record alone. Times in microseconds UTC; 0 = not yet. ``least_us`` and ``most_us`` bound ``until_us``."""

    uid: str
    namespace: str
    team: str
    decision: Decision
    is_saved: bool
    cpu_milli: int
    gpu_milli: int
    from_us: int
    least_us: int
    until_us: int = 0
    most_us: int = 0

"""A span: the time of a pod's run on record only, or under trial only."""

from __future__ import annotations

import msgspec

from bus.events.decisions import Decision


class PodSpan(msgspec.Struct):
    """A time of a pod's run on record only (``is_saved``), or under trial only. Microseconds UTC; ``until_us`` 0 = not over."""

    #: The pod on record.
    uid: str
    namespace: str
    team: str
    decision: Decision
    is_saved: bool
    cpu_milli: int
    gpu_milli: int
    from_us: int
    until_us: int = 0

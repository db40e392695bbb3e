"""How many asks a second one quota may make, so that failing creates cannot fill a history (catalogue D14).

A bucket for each quota and process: full at first, one ask takes one, ``per_second`` come back. Pure but for its state.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US


class Rate(msgspec.Struct, frozen=True):
    """``burst`` asks at once, ``per_second`` for ever."""

    per_second: int = 200
    burst: int = 2_000


class Buckets:
    """A bucket for each name, counted in millionths of an ask."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._left: dict[str, tuple[int, int]] = {}

    def takes(self, name: str, now_us: int) -> bool:
        """Whether one more ask is let through at this moment. A clock that steps back gives nothing."""
        full = self._rate.burst * SECOND_US
        left, since_us = self._left.get(name, (full, now_us))
        left = min(full, left + max(now_us - since_us, 0) * self._rate.per_second)
        is_let = left >= SECOND_US
        self._left[name] = (left - SECOND_US if is_let else left, max(now_us, since_us))
        return is_let

"""A rate limit for each asker and quota, so failing creates cannot fill a history (docs/wrong-input.md D14).

A service account counts as its namespace: users with edit rights there can make any number of accounts.
A bucket for each asker and process: full at first, one request takes one, ``per_second`` come back. Pure but for its state.
The number of buckets is bounded, as names of askers can be invented: the least recently used one is dropped.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from bus.clock import SECOND_US

#: Most buckets at once. A dropped one is full again when it comes back.
MOST_BUCKETS = 10_000


#: How the name of a service account begins; its namespace and its own name follow.
_ACCOUNT = "system:serviceaccount:"


def asker_of(user: str, *, is_controller: bool) -> str:
    """The asker, by a name that it cannot invent: for a service account its namespace, except for controllers."""
    if is_controller or not user.startswith(_ACCOUNT):
        return user
    return _ACCOUNT + user[len(_ACCOUNT) :].partition(":")[0]


class Rate(msgspec.Struct, frozen=True):
    """``burst`` requests at once, ``per_second`` for ever."""

    per_second: int = 200
    burst: int = 2_000


class Buckets:
    """A bucket for each name, counted in millionths of a request."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        #: In the order of their last use.
        self._left: dict[Hashable, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._left)

    def takes(self, name: Hashable, now_us: int) -> bool:
        """Whether one more request is admitted at this moment. A clock that steps back adds nothing."""
        full = self._rate.burst * SECOND_US
        left, since_us = self._left.pop(name, (full, now_us))
        left = min(full, left + max(now_us - since_us, 0) * self._rate.per_second)
        is_let = left >= SECOND_US
        self._left[name] = (left - SECOND_US if is_let else left, max(now_us, since_us))
        if len(self._left) > MOST_BUCKETS:
            del self._left[next(iter(self._left))]
        return is_let

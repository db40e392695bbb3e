"""The plausible stamps of one observation of a pod, and the moments computed from them. Pure.

Stamps come from the API server and the kubelets, the observation's time from the watcher: any of their clocks may
be wrong. A stamp is plausible from June 2014 on, when Kubernetes began, until one year after the greatest of the
observation's other stamps and its time. Any other counts as absent. Plausibility depends on this one observation
alone, so rows stay a function of the set of observations.

An observation's time replaces a missing stamp, and never enters a minimum with stamps: a wrong clock would win
there for ever.

Source: docs/accounting.md, "Time".
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from bus.clock import SECOND_US, parse_stamp
from bus.errors import TimestampError
from bus.events.pods import PodState

#: The first commit of Kubernetes is of 2014-06-06.
FIRST_US = parse_stamp("2014-06-01T00:00:00Z")
YEAR_US = 365 * 86_400 * SECOND_US

#: A stamp older than the start by this (microseconds) proves a wrong clock of its writer.
TOLERANCE_US = 2 * SECOND_US

#: After every possible stamp.
_LATEST_US = 2**62

#: Flags of an unreadable or impossible stamp, and of a watcher with a proven wrong clock.
ABSENT, WRONG_CLOCK = "clamped", "clock"
_FLAGGED = frozenset((ABSENT,))


class Stamps(msgspec.Struct, frozen=True, gc=False):
    """The plausible stamps of one observation, microseconds UTC; None for a missing one. ``flags``: the faults of
    the others.

    ``at_us`` is its observation: its own time, or for a time before June 2014 the greatest of its stamps, never
    later than it.
    """

    at_us: int
    created_us: int | None
    scheduled_us: int | None
    deletion_us: int | None
    disrupted_us: int | None
    acknowledged_us: int | None
    init_us: int | None
    written_us: int | None
    finished_us: int | None
    flags: frozenset[str]


#: The stamps of an observation, without finishes of containers.
_SINGLE = 7
#: The API server's own stamps: creation, and the last write of the status. A deadline of a delete is as late as
#: users wish.
_SERVERS = 0, 6


def read(fact: PodState, time_us: int) -> Stamps:
    """The stamps of ``fact``, observed at ``time_us``. ``finished_us`` is the latest of its finishes, where each is plausible."""
    texts = (
        fact.created, fact.scheduled, fact.deletion, fact.disrupted, fact.acknowledged, fact.init_finished, fact.written,
        *fact.finished,
    )  # fmt: skip
    found, flags, first, last = _parsed(texts)
    earliest = first if first < time_us else time_us
    at_us = time_us
    if not (earliest >= FIRST_US and last <= earliest + YEAR_US >= time_us):
        found, flags = _plausible(found, flags, time_us)
        if time_us < FIRST_US:
            at_us = max((us for us in found if us is not None), default=time_us)
    created, scheduled, deletion, disrupted, acknowledged, init, written, *finished = found
    return Stamps(
        at_us, created, scheduled, deletion, disrupted, acknowledged, init, written, _latest(finished), flags,
    )  # fmt: skip


def newest(texts: Iterable[str], until_us: int) -> int | None:
    """The newest readable stamp, up to a moment."""
    found = [us for us in _parsed(tuple(texts))[0] if us is not None and FIRST_US <= us <= until_us]
    return max(found, default=None)


def _latest(ends: list[int | None]) -> int | None:
    known = [us for us in ends if us is not None]
    return max(known) if known and len(known) == len(ends) else None


def _plausible(
    found: list[int | None], flags: frozenset[str], time_us: int
) -> tuple[list[int | None], frozenset[str]]:
    """The stamps with some implausible ones: these are absent."""
    moments = [time_us, *[us for us in found if us is not None]]
    greatest = sorted(us for us in moments if us >= FIRST_US)[-2:]
    plausible = [us if us is None or _is_plausible(us, greatest) else None for us in found]
    # Two stamps of one kubelet, with a possibly very wrong clock, do not confirm each other.
    vouched = [
        us for us in (time_us, *map(plausible.__getitem__, _SERVERS)) if us and us >= FIRST_US
    ]
    latest_us = max(vouched) + YEAR_US if vouched else _LATEST_US
    plausible = [us if us is None or us <= latest_us else None for us in plausible]
    return (found, flags) if plausible == found else (plausible, _FLAGGED)


@lru_cache(maxsize=8_192)
def _parsed(
    texts: tuple[str | None, ...],
) -> tuple[list[int | None], frozenset[str], int, int]:
    """The moments of stamps, None for an absent or unreadable one; flags; the first and the last.

    The observations of a pod have the same stamps again and again. The result is never changed.
    """
    found: list[int | None] = []
    flags: frozenset[str] = frozenset()
    for text in texts:
        try:
            found.append(None if text is None else parse_stamp(text))
        except TimestampError:
            flags = _FLAGGED
            found.append(None)
    known = [us for us in found if us is not None]
    return found, flags, min(known, default=_LATEST_US), max(known, default=FIRST_US)


def _is_plausible(us: int, greatest: list[int]) -> bool:
    """``greatest``: the two greatest of all known ones, none of them before June 2014."""
    if us < FIRST_US:
        return False
    # The others of the greatest one begin at the second.
    others = greatest[:-1] if us == greatest[-1] else greatest[-1:]
    return not others or us <= others[-1] + YEAR_US


def earlier(one: int | None, other: int | None) -> int | None:
    """The smaller of two moments; None is no moment."""
    if one is None or other is None:
        return other if one is None else one
    return one if one < other else other


def earlier_seen(one: int | None, other: int) -> int:
    """The smaller of two times of observations; one before June 2014 counts only where there is no other."""
    if one is None or (one < FIRST_US <= other):
        return other
    if other < FIRST_US <= one:
        return one
    return one if one < other else other

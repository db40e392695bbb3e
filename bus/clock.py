"""Reads and writes time stamps as integer microseconds UTC since 1970. The only reader of the wall clock.

Stands at both ends of the flow: sources and envelopes read RFC 3339 stamps, everything behind them counts in
integers. `datetime.fromisoformat` is not used for reading: it accepts forms never written by the API server and
refuses the leap second (docs/wrong-input.md A23). The fold of a history never asks for the present; time comes to
it as an event (docs/architecture.md).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Protocol

from bus.errors import TimestampError, WrongClockError

SECOND_US = 1_000_000

#: A larger offset is shown, and a clock moved by more than this beside time itself was set.
STEP_US = 2 * SECOND_US

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_FIRST_US = (1 - _EPOCH_DAY) * 86_400 * SECOND_US
_END_US = (date.max.toordinal() + 1 - _EPOCH_DAY) * 86_400 * SECOND_US

# The longest form: nine digits of fraction and a numeric offset.
_LONGEST = len("2026-10-26T07:55:25.123456789+05:30")
_STAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


# Second 60 is not here: the general form knows it.
_SECONDS = {f"{second:02d}": second * SECOND_US for second in range(60)}


@lru_cache(maxsize=65_536)
def parse_stamp(text: str) -> int:
    """The instant of an RFC 3339 stamp, in microseconds UTC since 1970; before that, negative.

    Accepted are the forms of Kubernetes and Jupyter: upper-case `T`, a zone (`Z` or `+hh:mm`), up to nine digits of
    fraction, without the last three. The second 60 of any minute reads as 59.999999, so a leap second stays inside
    its minute. Years 0001 to 9999. Raises TimestampError: the caller then uses the time of receipt and flags it, or
    parks the record. Source: RFC 3339 section 5.6; docs/wrong-input.md A23.
    """
    second, tail = _SECONDS.get(text[17:19]), text[19:]
    if second is not None:
        if tail == "Z":
            minute = _minute_us(text[:17])
            if minute is not None:
                return minute + second
        elif len(tail) == 8 and tail[0] == "." and tail[-1] == "Z":
            micros = tail[1:7]
            minute = _minute_us(text[:17])
            if minute is not None and micros.isascii() and micros.isdigit():
                return minute + second + int(micros)
    return _general(text)


@lru_cache(maxsize=4_096)
def _minute_us(prefix: str) -> int | None:
    """The start of the minute `YYYY-MM-DDTHH:MM:`; None where the general form has to judge."""
    try:
        return _general(prefix + "00Z")
    except TimestampError:
        return None


def _general(text: str) -> int:
    if len(text) > _LONGEST:
        raise TimestampError(text=text[:_LONGEST], reason="too long")
    parts = _STAMP.fullmatch(text)
    if parts is None:
        raise TimestampError(text=text, reason="not RFC 3339 with a zone")
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = parts.groups()
    if hour > "23" or minute > "59" or second > "60":
        raise TimestampError(text=text, reason="no such time of day")
    seconds, micros = int(second), int(fraction[:6].ljust(6, "0")) if fraction else 0
    if seconds == 60:
        seconds, micros = 59, SECOND_US - 1
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        raise TimestampError(text=text, reason="no such day") from None
    seconds += days * 86_400 + int(hour) * 3_600 + int(minute) * 60
    if sign:
        if off_hours > "23" or off_minutes > "59":
            raise TimestampError(text=text, reason="no such offset")
        offset = int(off_hours) * 3_600 + int(off_minutes) * 60
        seconds += offset if sign == "-" else -offset
    stamp = seconds * SECOND_US + micros
    if not _FIRST_US <= stamp < _END_US:
        raise TimestampError(text=text, reason="outside the years 0001 to 9999 UTC")
    return stamp


#: No build of this program is older: a clock before it is wrong.
BUILT_US = _general("2026-01-01T00:00:00Z")


def format_stamp(us: int) -> str:
    """`us` as RFC 3339 UTC: `2026-10-26T07:55:25Z`, with six digits of fraction unless it is zero.

    The inverse of `parse_stamp`, and one text per instant, so it may be part of hashed bytes.
    Raises TimestampError outside the years 0001 to 9999.
    """
    seconds, micros = divmod(us, SECOND_US)
    whole = _format_seconds(seconds)
    return f"{whole}.{micros:06d}Z" if micros else f"{whole}Z"


@lru_cache(maxsize=16_384)
def _format_seconds(seconds: int) -> str:
    try:
        return (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        raise TimestampError(seconds=seconds, reason="outside the years 0001 to 9999") from None


def floor_seconds(us: int) -> int:
    """Accounting time of an instant: whole seconds UTC since 1970, rounded down, also before 1970.

    Source: docs/accounting.md.
    """
    return us // SECOND_US


class Clock(Protocol):
    """The present, for sources, publishers and effectors; tests use a fixed one."""

    def now_us(self) -> int:
        """Microseconds UTC since 1970. May step back when the machine's clock is set."""


class SystemClock:
    """The machine's wall clock. No other code of Bursar reads it."""

    def now_us(self) -> int:
        """Microseconds UTC since 1970, rounded down."""
        return time.time_ns() // 1_000


class ServerClock:
    """This machine's estimate of an API server's clock: its own clock, plus an offset.

    The offset is measured by the Date header of answers. A header has whole seconds, and the answer was made
    between request and receipt, so each answer bounds the offset from both sides; it is moved into these bounds and
    no further: a possibly right clock is left alone. After a clock step, the next answer sets the offset: 0 if its
    bounds allow it, else the lower bound plus one second. The added second is the header's hidden fraction: events
    observed too early lose their stamps (docs/accounting.md). Further answers correct the offset. One clock serves all
    sources of a cluster.
    """

    def __init__(self, own: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._own = own
        self._monotonic = monotonic
        #: Offset to this machine's clock, microseconds.
        self.offset_us = 0
        #: This machine's clock and its time since its start, at the newest measurement.
        self._measured: tuple[int, float] | None = None

    def now_us(self) -> int:
        """Microseconds UTC since 1970, by the API server's clock."""
        return self._own.now_us() + self.offset_us

    def own_us(self) -> int:
        """Microseconds UTC since 1970, by this machine's clock."""
        return self._own.now_us()

    def checked_us(self) -> int:
        """As :meth:`now_us`. Raises WrongClockError for an implausible time: publish nothing, try again later."""
        own_us = self._own.now_us()
        clocks = (("of this machine", own_us), ("of the API server", own_us + self.offset_us))
        for clock, us in clocks:
            if us < BUILT_US:
                raise WrongClockError(
                    clock=clock, now=format_stamp(max(us, 0) // SECOND_US * SECOND_US)
                )
        return own_us + self.offset_us

    def answered(self, date: str | None, sent_us: int) -> None:
        """An answer came now to a request sent at ``sent_us`` of this machine's clock; ``date`` is its Date header."""
        server_us, received_us = _date_us(date), self._own.now_us()
        least_us = 0 if server_us is None else server_us - received_us
        most_us = 0 if server_us is None else server_us + SECOND_US - sent_us
        # Where the machine's clock was set meanwhile, the answer bounds nothing.
        if server_us is None or least_us > most_us:
            return
        found_us = min(max(self.offset_us, least_us), most_us)
        if abs(found_us - self.offset_us) > STEP_US:
            found_us = 0 if least_us <= 0 <= most_us else min(least_us + SECOND_US, most_us)
        self.offset_us = found_us
        self._measured = (received_us, self._monotonic())

    def has_stepped(self) -> bool:
        """Whether this machine's clock was set, or the machine slept, since the offset was measured."""
        if self._measured is None:
            return False
        own_us, seconds = self._measured
        passed_us = self._own.now_us() - own_us
        return abs(passed_us - round((self._monotonic() - seconds) * SECOND_US)) > STEP_US


def _date_us(text: str | None) -> int | None:
    """A Date header in microseconds UTC since 1970; None for anything else."""
    if not text or len(text) > 64:
        return None
    try:
        return round(parsedate_to_datetime(text).timestamp()) * SECOND_US
    except (ValueError, TypeError, OverflowError):
        return None

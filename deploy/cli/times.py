"""Times as people type and read them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from bus.clock import SECOND_US, SystemClock, floor_seconds, format_stamp

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Begin of the period: 2026-11-21, 2026-11-21T09:00, 2026-11, 7d or 12h ago, today, yesterday, week, month, year.",
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="End of the period, exclusive; written as --from."),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", metavar="TIME", help="The moment of the question; by default the newest event."
    ),
]
Zone = Annotated[
    str, typer.Option("--tz", metavar="ZONE", help="Zone of days, hours and times without one.")
]


def zone_of(name: str) -> ZoneInfo:
    """An IANA zone. Raises typer.BadParameter."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise typer.BadParameter(
            f"there is no time zone {name[:64]!r}", param_hint="--tz"
        ) from None


def second_of(
    text: str | None, zone: ZoneInfo, option: str, moment_s: int | None = None
) -> int | None:
    """A typed time in whole seconds UTC; None for none. Without an offset it is in ``zone``. Raises typer.BadParameter.

    Words and spans count from ``moment_s``, by default from this machine's clock: ``yesterday`` is the start of that day.
    """
    if text is None:
        return None
    now_s = floor_seconds(SystemClock().now_us()) if moment_s is None else moment_s
    if (found_s := _worded(text, zone, now_s)) is not None:
        return found_s
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.replace(tzinfo=zone)
        return int(found.timestamp() // 1)
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(
            f"{text[:64]!r} is no time: 2026-11-21, 2026-11-21T09:00, 2026-11-21T09:00:00Z, 2026-11, 7d, 12h,"
            " now, today, yesterday, week, month or year",
            param_hint=option,
        ) from None


_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?\Z")
_AGO = re.compile(r"(\d{1,5})([mhdw])\Z")
_SPANS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _worded(text: str, zone: ZoneInfo, now_s: int) -> int | None:
    """The second of a word, a span or a month; None for another text."""
    if text == "now":
        return now_s
    if found := _AGO.match(text):
        return now_s - int(found[1]) * _SPANS[found[2]]
    try:
        day = datetime.fromtimestamp(now_s, zone).replace(hour=0, minute=0, second=0, fold=0)
        begins = {
            "today": day,
            "yesterday": day - timedelta(days=1),
            "week": day - timedelta(days=day.weekday()),
            "month": day.replace(day=1),
            "year": day.replace(month=1, day=1),
        }
        if found := _MONTH.match(text):
            begins[text] = datetime(int(found[1]), int(found[2] or 1), 1, tzinfo=zone)
        return int(begins[text].timestamp()) if text in begins else None
    except (ValueError, OverflowError, OSError):
        return None


def stamp(second: int | None) -> str | None:
    """A second as ISO 8601 UTC; None for none."""
    return None if second is None else format_stamp(second * SECOND_US)

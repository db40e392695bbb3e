"""Times as people type and read them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from bus.clock import SECOND_US, SystemClock, floor_seconds, format_stamp

From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Begin of the period: 2026-11-21, 2026-11-21T09:00."
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="End of the period, itself not in it."),
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


def second_of(text: str | None, zone: ZoneInfo, option: str) -> int | None:
    """A typed time in whole seconds UTC; None for none. Without an offset it is in ``zone``. Raises typer.BadParameter."""
    if text is None:
        return None
    if text == "now":
        return floor_seconds(SystemClock().now_us())
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.replace(tzinfo=zone)
        return int(found.timestamp() // 1)
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(
            f"{text[:64]!r} is no time: 2026-11-21, 2026-11-21T09:00, 2026-11-21T09:00:00Z or now",
            param_hint=option,
        ) from None


def stamp(second: int | None) -> str | None:
    """A second as ISO 8601 UTC; None for none."""
    return None if second is None else format_stamp(second * SECOND_US)

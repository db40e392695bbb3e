"""Amounts and times in common words: ``2h 05m``, ``1.5``, ``16 GiB``. For tables; programs get the integers."""

from __future__ import annotations

from deploy.cli.rendering.layout import Cell

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def duration(seconds: int | None, style: str = "") -> Cell | None:
    """Seconds in the two largest significant units; None for none at all."""
    if not seconds:
        return None
    days, hours, minutes = seconds // _DAY, seconds % _DAY // _HOUR, seconds % _HOUR // _MINUTE
    if days:
        text = f"{days:,}d {hours:02}h"
    elif hours:
        text = f"{hours}h {minutes:02}m"
    else:
        text = f"{minutes}m {seconds % 60:02}s" if minutes else f"{seconds}s"
    return Cell(text, "figure", style)


def thousandths(milli: int | None) -> Cell | None:
    """Milli-cores or milli-GPUs as cores or GPUs: ``1.5``; None for none at all."""
    return Cell(f"{milli / 1000:,.3f}".rstrip("0").rstrip("."), "figure") if milli else None


def memory(mib: int | None) -> Cell | None:
    """Mebibytes in their shortest unit: ``512 MiB``, ``16 GiB``, ``1.5 TiB``; None for none at all."""
    if not mib:
        return None
    for unit, size in (("TiB", 1024 * 1024), ("GiB", 1024)):
        if mib >= size:
            return Cell(f"{mib / size:,.2f}".rstrip("0").rstrip(".") + f" {unit}", "figure")
    return Cell(f"{mib:,} MiB", "figure")


def moment(stamp: str | None) -> Cell | None:
    """An ISO 8601 stamp of UTC to the minute, as ``--from`` takes it: ``2026-11-21T09:00Z``; None for none."""
    return Cell(f"{stamp[:16]}Z", "fixed") if stamp else None


def line_ahead(place: int) -> str:
    """The wait of a workload that fits: ``3 workloads ahead``, or ``its start`` without any."""
    ahead = max(place - 1, 0)
    return f"{ahead:,} workload{'s' * (ahead > 1)} ahead" if ahead else "its start"


def words(text: str | None) -> Cell | None:
    """Text with possible line breaks; None for none at all."""
    return Cell(text, "words") if text else None

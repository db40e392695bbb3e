"""What `bursar status` says of sealed segments."""

from __future__ import annotations

from typing import Any

from bus.errors import SegmentPlaceError
from projections.engine.segments.reading import Select, sealed


def segments_of(select: Select) -> dict[str, Any]:
    """How many segments there are, up to which event the history is sealed and trimmed, and which files are not there."""
    found = sealed(select)
    missing = []
    for one in found:
        try:
            if not one.is_there:
                missing.append(one.where)
        except SegmentPlaceError as error:
            missing.append(f"{one.where}: {error}")
    return {
        "count": len(found),
        "sealed": max((one.last for one in found), default=0),
        "trimmed": max((one.last for one in found if one.trimmed), default=0),
        "missing": missing,
    }


def segments_line(told: dict[str, Any]) -> str | list[str]:
    """The same for people."""
    line = "none sealed"
    if told["count"]:
        line = f"{told['count']:,}, sealed until event {told['sealed']:,}"
        line += f", trimmed until {told['trimmed']:,}" if told["trimmed"] else ", nothing trimmed"
    bad = [f"missing: {name}" for name in told["missing"]]
    bad += [f"not sealed: {told['trouble']}"] if told["trouble"] else []
    return [line, *bad] if bad else line

"""The lines of `bursar status` about sealed segments."""

from __future__ import annotations

from typing import Any

from bus.errors import SegmentPlaceError
from projections.engine.segments.reading import Select, sealed


def segments_of(select: Select) -> dict[str, Any]:
    """The number of segments, the ends of the sealed and the trimmed history, absent files, and the number
    of those ``away``: their folder is on another machine, and the table has their events.
    """
    found = sealed(select)
    missing, away = [], 0
    for one in found:
        try:
            if one.is_away:
                away += 1
            elif not one.is_there:
                missing.append(one.where)
        except SegmentPlaceError as error:
            missing.append(f"{one.where}: {error}")
    return {
        "count": len(found),
        "sealed": max((one.last for one in found), default=0),
        "trimmed": max((one.last for one in found if one.trimmed), default=0),
        "missing": missing,
        "away": away,
    }


def segments_line(state: dict[str, Any]) -> str | list[str]:
    """The same for people."""
    line = "none sealed"
    if state["count"]:
        line = f"{state['count']:,}, sealed until event {state['sealed']:,}"
        line += f", trimmed until {state['trimmed']:,}" if state["trimmed"] else ", nothing trimmed"
        line += f" ({state['away']:,} in a folder that this machine lacks)" if state["away"] else ""
    bad = [f"missing: {name}" for name in state["missing"]]
    bad += [state["trouble"]] if state["trouble"] else []
    return [line, *bad] if bad else line

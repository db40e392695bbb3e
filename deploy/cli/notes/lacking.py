"""Parts of the ledger that an upgrade fills again. Answers name each part and the last event in its rows.

Source: docs/operating.md, "Upgrades and roll-backs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from deploy.cli.rendering.output import say
from deploy.hints import hint
from deploy.runtime import kept, ledgers
from projections.engine.checkpoint import lacking
from projections.engine.store import LEDGER
from projections.engine.tables import checkpoints

#: Parts found in the ledgers of the current command, each with its earliest event. A process runs one command at a time.
_found: dict[str, int] = {}


def watch_looks() -> None:
    """Name such parts at each look of one command, on stderr."""
    _found.clear()
    if _name_parts not in ledgers.looks:
        ledgers.looks.append(_name_parts)


def as_of() -> str:
    """The addition to the ledger's event in a footer; empty where all parts move together."""
    return "".join(
        f"; {', '.join(parts)} as of {_event(event)}" for event, parts in by_event(_found).items()
    )


def by_event(parts: Mapping[str, int]) -> dict[int, list[str]]:
    """Parts by their last event, earliest first."""
    found: dict[int, list[str]] = {}
    for name, event in sorted(parts.items(), key=lambda part: part[1]):
        found.setdefault(event, []).append(name)
    return found


def of_ledger(connection: sa.Connection) -> dict[str, int]:
    """The parts of a ledger in filling, with the last event in their rows; 0: it is unknown."""
    query = sa.select(checkpoints.c.version).where(checkpoints.c.name == LEDGER)
    return lacking(connection.scalar(query) or "")


def filling(parts: Mapping[str, int], told: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The parts with the last event in their rows, and the progress of the fill. ``told``: the running process's report of it."""
    if not parts:
        return None
    so_far = {name: (told or {}).get(name) for name in ("sequence", "of")}
    return {"parts": list(parts), "ends": dict(parts), **so_far}


def filling_lines(found: Mapping[str, Any] | None) -> list[str] | str:
    """The same for people, a line for each part."""
    if found is None:
        return "nothing"
    lines = [f"{name}: ends at {_event(event)}" for name, event in found["ends"].items()]
    if found["sequence"] is None:
        return [*lines, f"`{hint('up')}` fills them"]
    return [*lines, f"filled so far: {found['sequence']:,} of {found['of']:,} events"]


def _name_parts(connection: sa.Connection) -> None:
    parts = of_ledger(connection)
    new = {name: event for name, event in parts.items() if event < _found.get(name, event + 1)}
    _found.update(new)
    for event, names in by_event(new).items():
        end = "lack the newest events" if kept.caller is not None else f"end at {_event(event)}"
        say(
            f"warning: {', '.join(names)} {end}: an upgrade fills them anew."
            f" `{hint('up')}` finishes it, `{hint('status')}` shows how far it is"
        )


def _event(event: int) -> str:
    return f"event {event:,}" if event else "an unknown event"

"""What the archive holds of the journals, and of what their decisions were read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from bus.envelope import Event
from projections.engine.store import event_of_row
from projections.engine.tables import events

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]

#: Events read at a time.
PART = 5_000


def archived(
    select: Select, cluster: str, types: Iterable[str], *, key: str | None = None, after: int = 0
) -> Iterator[list[Event]]:
    """The events of these types, of one ``key`` or all, in order, some thousand at a time."""
    columns = events.c
    chosen = [columns.cluster == cluster, columns.type.in_(tuple(types)), columns.defect == ""]
    if key is not None:
        chosen.append(columns.key == key)
    while True:
        query = sa.select(events).where(*chosen, columns.sequence > after)
        rows = select(query.order_by(columns.sequence).limit(PART))
        if rows:
            yield [event_of_row(row) for row in rows]
            after = rows[-1][0]
        if len(rows) < PART:
            return

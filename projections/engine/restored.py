"""The other form of archived events without a way back to a stream unchanged.

Two kinds cannot. An unreadable message has no headers to publish it with, nor has one read by an earlier version
and refused by every bus now. And an id used twice, further apart than the bus remembers ids (a restarted source
repeats its observations), would count as a repetition if both come within minutes. The archive stays as it is; only
the stream carries the other form.

An exported file has the same form, so all of it can be imported.

Source: :mod:`projections.engine.recover`; ``bus.envelope`` (malformed), ``bus.streams`` (duplicate window).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import sqlalchemy as sa

from bus.envelope import MALFORMED, Event, digest, is_sound
from projections.engine.segments.reading import Wanted, history, selecting
from projections.engine.store import event_of_row
from projections.engine.tables import events, parked

#: Wire type of the replacement of an unreadable message.
STAND_IN = "unreadable.restored"


def restored(event: Event) -> Event:
    """The other form of an archived event: under an id made of its place and digest; unreadable bytes inside a body."""
    id = f"restored/{event.sequence}/{digest(event).hex()[:16]}"
    if event.type != MALFORMED and is_sound(event):
        return msgspec.structs.replace(event, id=id)
    body = msgspec.json.encode({"raw": event.body, "defect": event.defect})
    return Event(
        "unreadable",
        STAND_IN,
        str(event.sequence),
        id,
        "bursar",
        event.time_us,
        body,
        1,
        event.sequence,
    )


def is_restored(archived: Event, streamed: bytes) -> bool:
    """Whether the digest ``streamed`` belongs to ``archived``, in either form."""
    return streamed == digest(archived) or streamed == digest(restored(archived))


class Carried:
    """Events in the form of a stream or a file, each under an id of its own."""

    def __init__(self) -> None:
        self._ids: set[int] = set()

    def mark(self, id: str) -> None:
        """An event of this id is there already."""
        self._ids.add(hash(id))

    def carried(self, event: Event) -> Event:
        """``event``, or its other form where it cannot be carried or its id is taken."""
        if event.type == MALFORMED or hash(event.id) in self._ids or not is_sound(event):
            return restored(event)
        self.mark(event.id)
        return event


def archived_ids(connection: sa.Connection) -> Iterator[str]:
    """The id of every archived event, and the other id of a return."""
    select = selecting(connection)
    seen: set[int] = set()
    again: set[str] = set()
    for part in history(select):
        for event in part:
            if hash(event.id) in seen:
                again.add(event.id)
            seen.add(hash(event.id))
            yield event.id
    odd = sa.select(events).where(events.c.sequence.in_(sa.select(parked.c.sequence)))
    for row in connection.execute(odd.execution_options(yield_per=1_000)):
        yield restored(event_of_row(tuple(row))).id
    for id in again:
        for part in history(select, Wanted(id=id)):
            for event in part:
                yield restored(event).id

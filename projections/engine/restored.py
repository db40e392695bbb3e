"""The form in which an archived event returns to a stream when it cannot return as it was.

Two kinds cannot. A message that was never readable has no headers to publish it with. And an id that was used twice, further
apart than the bus remembers ids (a source that starts again says again what it sees), would be taken for a repetition
when both come within minutes. The archive stays as it is; only the stream carries the other form.

Source: :mod:`projections.engine.recover`; ``bus.envelope`` (malformed), ``bus.streams`` (duplicate window).
"""

from __future__ import annotations

import msgspec

from bus.envelope import MALFORMED, Event, digest

#: Wire type of what takes the place of a message that was never readable.
STAND_IN = "unreadable.restored"


def restored(event: Event) -> Event:
    """The other form of an archived event: under an id that is its place and digest; unreadable bytes inside a body."""
    id = f"restored/{event.sequence}/{digest(event).hex()[:16]}"
    if event.type != MALFORMED:
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
    """Whether the digest ``streamed`` is that of ``archived``, in either form."""
    return streamed == digest(archived) or streamed == digest(restored(archived))

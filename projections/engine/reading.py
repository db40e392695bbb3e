"""The fact in an event, if the ledger can hold it.

Source: ``reliability.md`` P30: what cannot be stored is parked like what cannot be read, or it would fail the transaction
of every later batch as well.
"""

from __future__ import annotations

import re

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events import VOCABULARY
from bus.events.vocabulary import Fact, read

#: NUL as JSON writes it, which is not the text ``\\u0000`` behind an escaped backslash.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def fact_in(event: Event) -> Fact:
    """The fact in ``event``. Raises a PermanentError: park it. PostgreSQL's text holds no NUL, so no fact may."""
    if b"\\u0000" in event.body and _NUL.search(event.body):
        raise EnvelopeError("the body holds a NUL character", type=event.type)
    return read(event, VOCABULARY)

"""The position of a ledger in its history, and the proof of the same history.

Sequence numbers are reused after a stream lost its tail, so a number alone is no proof: the checkpoint holds the digest of
the event at its sequence and the chain over all before it.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from bus.envelope import GENESIS, Event, digest
from bus.errors import HistoryDivergedError

if TYPE_CHECKING:
    from bus.transport import Transport


class Checkpoint(msgspec.Struct, frozen=True):
    """The last event in the ledger. ``sequence`` 0: none yet. ``observed_us``: the newest observation time so far."""

    version: str = ""
    stream: str = ""
    stream_created_us: int = 0
    incarnation: int = 1
    sequence: int = 0
    digest: bytes = b""
    chain: bytes = GENESIS
    observed_us: int = 0


def lacking(version: str) -> dict[str, int]:
    """The parts of a checkpoint's ``version`` being filled anew, with the last event in their rows; 0: it is
    unknown.

    Each has the form ``name=version@event``, different from the version of every part.
    """
    marks = (entry.rpartition("@") for entry in version.split(",") if "@" in entry)
    return {part.partition("=")[0]: int(event) for part, _, event in marks}


async def confirm(checkpoint: Checkpoint, transport: Transport, sealed: int = 0) -> Checkpoint:
    """The checkpoint, bound to the stream it was found to belong to. The events up to ``sealed`` lie in segments.

    Raises HistoryDivergedError with the difference: the stream is shorter than the ledger, begins after the sealed
    part, was created anew, or has another event at the checkpoint. The caller stops; ``bursar recover`` brings both
    together.
    """
    head = await transport.head()
    if checkpoint.sequence == 0:
        if head.first_sequence > 1:
            raise HistoryDivergedError(
                "the stream's beginning is gone and the ledger has none of it",
                first_sequence=head.first_sequence,
            )
        return msgspec.structs.replace(
            checkpoint, stream=head.stream, stream_created_us=head.created_us
        )
    if head.first_sequence - 1 > sealed:
        raise HistoryDivergedError(
            "the stream lost its beginning, which is not sealed",
            first_sequence=head.first_sequence,
            sealed=sealed,
        )
    if head.last_sequence < checkpoint.sequence:
        raise HistoryDivergedError(
            "the stream ends before the ledger",
            stream_last=head.last_sequence,
            ledger_last=checkpoint.sequence,
        )
    if checkpoint.stream and (head.stream, head.created_us) != (
        checkpoint.stream,
        checkpoint.stream_created_us,
    ):
        raise HistoryDivergedError(
            "the stream was created anew", stream=head.stream, created_us=head.created_us
        )
    event = await transport.at(checkpoint.sequence)
    if event is None or digest(event) != checkpoint.digest:
        raise HistoryDivergedError(
            "the stream has another event at the ledger's checkpoint", sequence=checkpoint.sequence
        )
    return msgspec.structs.replace(
        checkpoint, stream=head.stream, stream_created_us=head.created_us
    )


def after(checkpoint: Checkpoint, events: list[Event], chain: bytes) -> Checkpoint:
    """The checkpoint when ``events`` are in the ledger and ``chain`` is the chain's value at the last of them."""
    last = events[-1]
    return msgspec.structs.replace(
        checkpoint,
        sequence=last.sequence,
        digest=digest(last),
        chain=chain,
        observed_us=observed(checkpoint.observed_us, events),
    )


def observed(before_us: int, events: Iterable[Event]) -> int:
    """The newest observation time after ``events``, following a history with ``before_us`` as its newest."""
    return max(before_us, *(event.time_us for event in events))

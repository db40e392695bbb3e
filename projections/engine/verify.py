"""Is this the history that was said? Recomputes the chain of the whole archive and holds it against every witness.

Witnesses are: the chain value stored with each event, the checkpoint, the heads signed into the ledger, and the heads in a file
that is kept elsewhere. The first two find damage; the last finds tampering too, up to the newest head in
it, since whoever changes the database can change all witnesses in it.

Source: ``house.md`` 3.8 and 3.9; ``reliability.md`` P11.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import GENESIS, Event, link
from bus.errors import LedgerError
from projections.engine.dump import snapshot, stream
from projections.engine.heads import Head, read_heads, verify_head
from projections.engine.replay import live_checkpoint
from projections.engine.restored import is_restored
from projections.engine.store import Store, event_of_row
from projections.engine.tables import events, heads, parked

#: How many findings are told one by one.
TOLD = 100


class Finding(msgspec.Struct, frozen=True):
    """One thing that does not fit. ``what`` is a stable token: chain, gap, end, checkpoint, parked or head."""

    what: str
    sequence: int
    reason: str


class Report(msgspec.Struct, frozen=True):
    """What a verification saw. ``found`` counts all findings, ``findings`` tells the first :data:`TOLD`.

    ``signed_until`` is the newest event that a valid head of the outside file covers; 0 without such a file.
    """

    events: int
    sequence: int
    chain: bytes
    heads: int
    signed_until: int
    found: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether everything fits."""
        return not self.found


class _Findings:
    def __init__(self) -> None:
        self.count = 0
        self.told: list[Finding] = []

    def add(self, what: str, sequence: int, reason: str) -> None:
        self.count += 1
        if len(self.told) < TOLD:
            self.told.append(Finding(what, sequence, reason))


def verify(
    store: Store,
    heads_file: Path | None = None,
    *,
    public_key: bytes | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Verify the whole archive of ``store``, as of one moment, beside a runner that goes on.

    ``public_key`` (32 bytes) is whom heads must be signed by; without it a head of the file may name its own key, which then
    only guards against damage to the file. Raises LedgerError when the file is missing or no file of heads.
    """
    found = _Findings()
    with snapshot(store) as connection:
        inside = [Head(*map(_plain, row)) for row in connection.execute(sa.select(heads))]
        outside = _outside(heads_file)
        witnesses = _witnesses([*inside, *outside], public_key, found)
        count, last, chain = _walk(connection, witnesses, found, progress)
        sequence = last.sequence if last is not None else 0
        for missing in sorted(number for number in witnesses if number > sequence):
            found.add("end", missing, "a signed head is beyond the end of the archive")
        _checkpoint(connection, last, chain, found)
        _parked(connection, found)
    valid = [h.sequence for h in outside if verify_head(h, public_key)]
    return Report(
        count, sequence, chain, len(inside) + len(outside), max(valid, default=0), found.count,
        tuple(found.told),
    )  # fmt: skip


def _walk(
    connection: sa.Connection,
    witnesses: dict[int, set[bytes]],
    found: _Findings,
    progress: Callable[[int, int], None] | None,
) -> tuple[int, Event | None, bytes]:
    """(events, the last one, the chain's value there), telling what breaks the chain."""
    until = live_checkpoint(connection).sequence
    statement = f"SELECT {', '.join(events.columns.keys())} FROM events ORDER BY sequence"
    count, expected, previous = 0, 1, GENESIS
    last: Event | None = None
    for rows in stream(connection, statement):
        for row in rows:
            last = event = event_of_row(row)
            if event.sequence != expected:
                found.add("gap", event.sequence, f"sequence {expected} is missing")
                expected = event.sequence
            expected += 1
            computed, previous = link(previous, event), row[10]
            if computed != previous:
                found.add("chain", event.sequence, "the event is not the one that was chained")
            if event.sequence in witnesses and witnesses[event.sequence] != {computed}:
                found.add("head", event.sequence, "a signed head has another chain value here")
        count += len(rows)
        if progress is not None:
            progress(count, max(count, until))
    return count, last, bytes(previous)


def _witnesses(
    told: list[Head], public_key: bytes | None, found: _Findings
) -> dict[int, set[bytes]]:
    values: dict[int, set[bytes]] = {}
    for head in told:
        if verify_head(head, public_key):
            values.setdefault(head.sequence, set()).add(head.chain)
        else:
            found.add("head", head.sequence, "the signature is not valid, or not by the given key")
    return values


def _outside(heads_file: Path | None) -> list[Head]:
    if heads_file is None:
        return []
    if not heads_file.exists():
        raise LedgerError("the file of heads is not there", path=str(heads_file))
    return list(read_heads(heads_file))


def _checkpoint(
    connection: sa.Connection, last: Event | None, chain: bytes, found: _Findings
) -> None:
    checkpoint = live_checkpoint(connection)
    sequence = last.sequence if last is not None else 0
    if checkpoint.sequence != sequence:
        found.add("end", sequence, f"the checkpoint is at {checkpoint.sequence}")
    elif checkpoint.chain != chain:
        found.add("checkpoint", sequence, "the checkpoint has another chain value")
    elif last is not None and not is_restored(last, checkpoint.digest):
        found.add("checkpoint", sequence, "the checkpoint has another digest")


def _parked(connection: sa.Connection, found: _Findings) -> None:
    query = (
        sa.select(parked.c.sequence)
        .outerjoin(events, events.c.sequence == parked.c.sequence)
        .where(events.c.sequence.is_(None))
    )
    for (sequence,) in connection.execute(query):
        found.add("parked", sequence, "a parked event is not in the archive")


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) else bytes(value)

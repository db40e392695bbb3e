"""Verifies the published history. Recomputes the chain of the whole archive and compares it with every witness.

Witnesses inside the ledger's reach are the chain value stored with each event, the checkpoint, the heads signed
into the ledger, and the file of heads beside it. They reveal damage, and a forgery of less than all of them. A
writer of the ledger can change all of them, and sign with the key there or with a new one. Only witnesses kept
elsewhere *anchor* a history: a copy of the file of heads, up to the newest head in it; or the public key, as far as
the private one is safe.

The first head names the valid key: a head by any other is a finding, unless that key is given as well. Views
different from this program's are findings, too, since users read them and not the archive.

Source: ``docs/history.md`` (the chain, anchors).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event, link
from bus.errors import LedgerError
from projections.engine.anchors import AnchorPlace, kept_at
from projections.engine.definitions import foreign
from projections.engine.dump import snapshot, stream
from projections.engine.heads import Head, read_heads, verify_head
from projections.engine.model import Model
from projections.engine.replay import live_checkpoint
from projections.engine.restored import is_restored
from projections.engine.segments.reading import selecting, trimmed_until
from projections.engine.segments.verifying import Walk
from projections.engine.snapshots import untrue
from projections.engine.store import Store, chain_of_row, event_of_row
from projections.engine.tables import events, heads, parked

_HEADS = sa.select(heads).order_by(heads.c.sequence)

#: How many findings are listed one by one.
MOST_FINDINGS = 100


class Finding(msgspec.Struct, frozen=True):
    """One inconsistency. ``what`` is a stable token: chain, gap, end, segment, checkpoint, parked, head, key,
    snapshot or view.
    """

    what: str
    sequence: int
    reason: str


class Report(msgspec.Struct, frozen=True):
    """The result of a verification. ``found`` counts all findings, ``findings`` holds the first
    :data:`MOST_FINDINGS`.

    ``key`` is the key of the first head, empty without one. ``signed_until`` is the newest event under a valid
    head; ``anchored_until`` the newest one under an outside witness, 0 without one.
    """

    events: int
    sequence: int
    chain: bytes
    heads: int
    key: bytes
    signed_until: int
    anchored_until: int
    found: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether everything fits."""
        return not self.found


class _Findings:
    def __init__(self) -> None:
        self.count = 0
        self.findings: list[Finding] = []

    def add(self, what: str, sequence: int, reason: str) -> None:
        self.count += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(what, sequence, reason))


def verify(
    model: Model,
    store: Store,
    heads_file: Path | AnchorPlace | None = None,
    *,
    keys: Collection[bytes] = (),
    own_file: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Verify the whole archive of ``store``, and its views, as of one moment, beside an active runner.

    ``heads_file``, or the other place of heads, and ``keys`` (32 bytes each: the required signers) come from
    outside and anchor the history; ``own_file`` lies beside the ledger. Raises LedgerError for a missing or invalid
    file of heads.
    """
    found = _Findings()
    with snapshot(store) as connection:
        inside = [Head(*map(_plain, row)) for row in connection.execute(_HEADS)]
        outside = _outside(heads_file, found, inside, keys)
        stored_heads = [*inside, *_outside(own_file, found), *outside]
        first = inside[0].public_key if inside else b""
        accepted = keys or ({first} if first else ())
        witnesses = _witnesses(stored_heads, accepted, found)
        count, last, chain = _walk(connection, accepted, witnesses, found, progress)
        sequence = last.sequence if last is not None else 0
        for missing in sorted(number for number in witnesses if number > sequence):
            found.add("end", missing, "a signed head is beyond the end of the archive")
        _checkpoint(connection, last, chain, found)
        _parked(connection, found)
        for place, reason in untrue(selecting(connection), accepted):
            found.add("snapshot", place, reason)
    for reason in foreign(model, store):
        found.add("view", sequence, reason)
    valid = [head for head in stored_heads if verify_head(head, accepted)]
    anchors = valid if keys else [head for head in valid if head in outside]
    return Report(
        count, sequence, chain, len(stored_heads), first, _newest(valid), _newest(anchors), found.count,
        tuple(found.findings),
    )  # fmt: skip


def _newest(found: Sequence[Head]) -> int:
    return max((head.sequence for head in found), default=0)


def _walk(
    connection: sa.Connection,
    accepted: Collection[bytes],
    witnesses: dict[int, set[bytes]],
    found: _Findings,
    progress: Callable[[int, int], None] | None,
) -> tuple[int, Event | None, bytes]:
    """(events, the last one, the chain's value there), reporting breaks of the chain, segments first."""
    until = live_checkpoint(connection).sequence

    def findings(count: int) -> None:
        if progress is not None:
            progress(count, max(count, until))

    walk = Walk(selecting(connection), accepted, witnesses, found.add, findings)
    walk.run()
    names = ", ".join(events.columns.keys())
    statement = f"SELECT {names} FROM events WHERE sequence > {walk.sequence} ORDER BY sequence"
    count, expected, previous, observed_us = walk.count, walk.sequence + 1, walk.chain, walk.observed_us  # fmt: skip
    last = walk.last
    for rows in stream(connection, statement):
        for row in rows:
            last = event = event_of_row(row)
            observed_us = max(observed_us, event.time_us)
            if event.sequence != expected:
                found.add("gap", event.sequence, f"sequence {expected} is missing")
                expected = event.sequence
            expected += 1
            computed, previous = link(previous, event), chain_of_row(row)
            if computed != previous:
                found.add("chain", event.sequence, "the event is not the one that was chained")
            if event.sequence in witnesses and witnesses[event.sequence] != {computed}:
                found.add("head", event.sequence, "a signed head has another chain value here")
        count += len(rows)
        findings(count)
    if observed_us != live_checkpoint(connection).observed_us:
        found.add("checkpoint", expected - 1, "the ledger's moment is not the newest observation")
    return count, last, bytes(previous)


def _witnesses(
    stored_heads: list[Head], keys: Collection[bytes], found: _Findings
) -> dict[int, set[bytes]]:
    values: dict[int, set[bytes]] = {}
    for head in stored_heads:
        if verify_head(head, keys):
            values.setdefault(head.sequence, set()).add(head.chain)
        elif verify_head(head):
            found.add(
                "key",
                head.sequence,
                f"signed by another key ({head.public_key.hex()}) than the first head or --key names: where you changed "
                "it, name each with --key",
            )
        else:
            found.add("head", head.sequence, "the signature is not valid")
    return values


def _outside(
    heads_file: Path | AnchorPlace | None,
    found: _Findings,
    known: Sequence[Head] = (),
    keys: Collection[bytes] = (),
) -> list[Head]:
    if heads_file is None:
        return []
    if not isinstance(heads_file, Path):
        kept, wrong = kept_at(heads_file, known, keys)
        for reason in wrong:
            found.add("head", 0, reason)
        return kept
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
        .where(
            events.c.sequence.is_(None), parked.c.sequence > trimmed_until(selecting(connection))
        )
    )
    for (sequence,) in connection.execute(query):
        found.add("parked", sequence, "a parked event is not in the archive")


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) else bytes(value)

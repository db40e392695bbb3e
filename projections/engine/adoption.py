"""Takes over a ledger last written by another program version: an older one after a roll-back, a newer one after an
upgrade.

Two things may be behind an unchanged checkpoint. Parts folded by a newer program stay as they are while an older
one, without them, writes the rest. And events unreadable to an older program (an unknown type, a newer version of
one) are parked: the archive has their bytes, the rows lack their content. So before this program goes on, it
rewrites the checkpoint to name only parts known to it, and none with such an event, now readable. Other parts are
filled from the archive (:mod:`projections.engine.fill`), beside the growing ledger. Until then the checkpoint names
it with the last event in its rows, ``name=version@event``: answers are no newer.

Source: docs/operating.md, "Upgrades and roll-backs".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import sqlalchemy as sa

from bus.errors import BursarError, UnknownEventTypeError, UnsupportedVersionError
from bus.events.admissions import entries
from bus.events.vocabulary import Fact
from projections.engine.checkpoint import Checkpoint
from projections.engine.contract import Projection
from projections.engine.model import Derivation, Model
from projections.engine.reading import fact_in
from projections.engine.store import LEDGER, Store, event_of_row
from projections.engine.tables import checkpoints, events, parked

#: Prefix of an older program's reason to park an event of a newer one.
_NEWER = (str(UnknownEventTypeError()), str(UnsupportedVersionError()))
_AT_ONCE = 500


def adopted(store: Store, model: Model) -> Checkpoint:
    """The checkpoint with exactly the current parts of ``model``. No other process may write the ledger."""
    found = store.checkpoint(model.version)
    if found.sequence == 0:
        return found
    with store.engine.connect() as connection:
        late = list(_late(connection))
    facts: set[type[Fact]] = set().union(*(facts for _, facts in late))
    folds: tuple[Projection | Derivation, ...] = (*model.projections, *model.derivations)
    takers = {part.name for part in folds if not facts.isdisjoint(part.facts)}
    before_late = min((sequence for sequence, _ in late), default=found.sequence + 1) - 1
    version = _marked(model, found, takers, before_late)
    with store.engine.begin() as connection:
        if version != found.version:
            statement = checkpoints.update().where(checkpoints.c.name == LEDGER)
            connection.execute(statement.values(version=version))
        if not takers:
            release(connection)
    return msgspec.structs.replace(found, version=version)


def _marked(model: Model, found: Checkpoint, takers: set[str], before_late: int) -> str:
    """The version with current parts as they are, and the others with the last event in their rows.

    ``takers``: parts without events after ``before_late``, readable by now.
    """
    written = dict(entry.partition("=")[::2] for entry in found.version.split(","))
    had = {part.name for part in model.current(found.version).parts}
    untaken = ",".join(f"{name}={of}" for name, of in written.items() if name not in takers)
    current = {part.name for part in model.current(untaken).parts}

    def entry(name: str, version: int) -> str:
        if name in current:
            return f"{name}={version}"
        of = written.get(name, "0@0")
        until = before_late if name in had else found.sequence
        return f"{name}={of}" if "@" in of else f"{name}={of}@{until}"

    return ",".join(entry(part.name, part.version) for part in model.parts)


def release(connection: sa.Connection) -> None:
    """Delete the parked events readable by now. The same transaction folds them into their projections."""
    for some in _groups([sequence for sequence, _ in _late(connection)]):
        connection.execute(parked.delete().where(parked.c.sequence.in_(some)))


def _late(connection: sa.Connection) -> list[tuple[int, set[type[Fact]]]]:
    """Events parked as newer and now readable: their sequences, and the facts in them."""
    rows = connection.execute(sa.select(parked.c.sequence, parked.c.reason)).all()
    sequences = [sequence for sequence, reason in rows if reason.startswith(_NEWER)]
    return [one for some in _groups(sequences) for one in _readable(connection, some)]


def _groups(sequences: Sequence[int]) -> list[Sequence[int]]:
    """In parts small enough for one query."""
    return [sequences[n : n + _AT_ONCE] for n in range(0, len(sequences), _AT_ONCE)]


def _readable(
    connection: sa.Connection, sequences: Sequence[int]
) -> Iterator[tuple[int, set[type[Fact]]]]:
    for row in connection.execute(sa.select(events).where(events.c.sequence.in_(sequences))):
        event = event_of_row(row)
        try:
            yield event.sequence, {type(fact_in(one)) for one in entries(event)}
        except BursarError:
            # Not yet by this program either.
            continue

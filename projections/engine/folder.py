"""All folds of a model over one batch of events: rows in memory, changes out.

A folder holds the rows in use (live ones, those of a batch, recently ended ones) and asks a
:class:`~projections.engine.changes.RowReader` for the rest. It knows no transaction and no projection: the caller
of :meth:`Folder.changes` stores its result, and the model defines the rows. A batch may be taken in parts.

One event at a time is folded, and its derived rows follow at once: rows do not depend on where batches end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from bus.envelope import Event
from bus.errors import BursarError, DamagedSegmentError, SegmentPlaceError
from bus.events.admissions import entries
from bus.events.vocabulary import Fact
from projections.engine.changes import Changes, Parked, RowReader, refused
from projections.engine.contract import Key, Projection
from projections.engine.model import Derived, Model
from projections.engine.reading import fact_in
from projections.engine.rows import Rows
from projections.engine.sums import Restatement

#: A row touched by a fact: its projection, its key, and its part of the fact.
Touch = tuple[Projection, Key, Any]


class Folder:
    """The rows of a model, folded event by event. Not thread-safe."""

    def __init__(self, model: Model, reader: RowReader) -> None:
        self.model = model
        self._rows = Rows(model.projections, reader)
        self._projections: dict[type[Fact], list[Projection]] = defaultdict(list)
        self._appliers: dict[type[Fact], list[Derived]] = defaultdict(list)
        self._followers: dict[str, list[Derived]] = {p.name: [] for p in model.projections}
        self._derived: list[Derived] = []
        self._restatements = self._sums()
        self._parked: list[Parked] = []
        for projection in model.projections:
            for fact in projection.facts:
                self._projections[fact].append(projection)
        for derivation in model.derivations:
            derived = derivation.begin(self._rows, partial(self._restate, derivation.name))
            self._derived.append(derived)
            for fact in derivation.facts:
                self._appliers[fact].append(derived)
            for projection in derivation.follows:
                self._followers[projection.name].append(derived)

    def open(self) -> None:
        """Load the live rows. Call once before the first batch."""
        for derived in self._derived:
            derived.open()

    def fold(self, events: Sequence[Event]) -> Changes:
        """Fold a whole batch."""
        self.apply(events)
        return self.changes()

    def apply(self, events: Sequence[Event]) -> None:
        """Fold the next events of a batch. A poison event is parked and changes no row; the rest goes on.

        Raises DamagedSegmentError and SegmentPlaceError if a fold needs an unreadable earlier event. Then the batch
        must not be stored.
        """
        facts, parked = _facts(events)
        self._parked += parked
        touched = self._begin(facts)
        for (event, fact), touches in zip(facts, touched, strict=True):
            try:
                self._fold(event, fact, touches)
            except (DamagedSegmentError, SegmentPlaceError):
                # Nothing is wrong with the event: it is folded when the history can be read again.
                raise
            except (BursarError, ArithmeticError, ValueError, TypeError, LookupError) as error:
                self._parked.append(refused(event, error))

    def changes(self) -> Changes:
        """The changes of the batch. The next batch begins."""
        restatements = [one for those in self._restatements.values() for one in those]
        found = Changes([], self._rows.changes(), restatements, self._parked)
        for derived in self._derived:
            more = derived.changes()
            found.deletes += more.deletes
            found.upserts |= more.upserts
        self._restatements, self._parked = self._sums(), []
        return found

    def settle(self) -> None:
        """Drop rows not needed in memory. Call when the last changes are stored."""
        self._rows.settle()
        for derived in self._derived:
            derived.settle()

    def _begin(self, facts: list[tuple[Event, Fact]]) -> list[list[Touch]]:
        """Read the rows needed by the facts; returns the rows touched by each."""
        touched: list[list[Touch]] = []
        for derived in self._derived:
            derived.begin(facts)
        for event, fact in facts:
            touches = [
                (projection, key, part)
                for projection in self._projections.get(type(fact), ())
                for key, part in projection.touched(fact, event)
            ]
            for projection, key, _ in touches:
                self._rows.want(projection, key)
            touched.append(touches)
        self._rows.fetch()
        return touched

    def _fold(self, event: Event, fact: Fact, touches: list[Touch]) -> None:
        for derived in self._appliers.get(type(fact), ()):
            derived.apply(event, fact)
        for projection, key, part in touches:
            before = self._rows.get(projection, key)
            after = projection.fold(before, part, event)
            if after is not before:
                followers = self._followers[projection.name]
                for derived in followers:
                    derived.check(after)
                self._rows.put(projection, key, after)
                for derived in followers:
                    derived.follow(before, after, event.sequence)

    def _restate(self, name: str, before: Any, after: Any, sequence: int) -> None:
        for restatement in self._restatements[name]:
            restatement.restate(before, after, sequence)

    def _sums(self) -> dict[str, list[Restatement]]:
        """Differences to all sums, by their derivation; none yet."""
        found = defaultdict[str, list[Restatement]](list)
        for one in self.model.sums:
            found[one.of] += [Restatement(table, shares) for table, shares in one.tables]
        return found


def _facts(events: Sequence[Event]) -> tuple[list[tuple[Event, Fact]], list[Parked]]:
    """Each fact with its event, an event with several facts under an event for each; and the unreadable events."""
    facts: list[tuple[Event, Fact]] = []
    parked: list[Parked] = []
    for event in events:
        try:
            facts += [(one, fact_in(one)) for one in entries(event)]
        except BursarError as error:
            parked.append(refused(event, error))
    return facts, parked

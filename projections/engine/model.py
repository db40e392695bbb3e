"""The model of a ledger: its projections, its derivations, its sums and its views. The engine knows nothing else of them.

A *derivation* keeps rows computed from several others. Its contract is what it **opens** (rows needed in memory
before the first event), **takes** (facts of its own), **follows** (changed rows of projections) and **changes**
(rows of its own tables, and through them sums). Inside a batch the order is: :meth:`Derived.begin` once for each
part, then for each event first :meth:`Derived.apply`, then the folds of the projections, and for each changed row
:meth:`Derived.check` by all derivations before any :meth:`Derived.follow`.

One model is a value: ``projections.catalogue.MODEL``. A test may make another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.vocabulary import Fact
from projections.engine.changes import Changes
from projections.engine.contract import Projection
from projections.engine.sums import Shares

if TYPE_CHECKING:
    from projections.engine.rows import Rows

#: Takes (row before or None, row after, sequence): whatever sums over these rows changes with them.
Restate = Callable[[Any, Any, int], None]


class Derived(Protocol):
    """The rows of one derivation inside one folder. Not thread-safe."""

    def open(self) -> None:
        """Read the rows needed before the first event."""

    def begin(self, facts: Sequence[tuple[Event, Fact]]) -> None:
        """A part of a batch comes. Read the rows for its facts, in few queries."""

    def apply(self, event: Event, fact: Fact) -> None:
        """Apply a fact of the declared types. An error parks the event."""

    def check(self, row: Any) -> None:
        """Raise for an impossible ``row`` of a followed projection: its event is parked, the row stays as it was."""

    def follow(self, before: Any, after: Any, sequence: int) -> None:
        """A row of a followed projection changed. ``before`` is None for a new one."""

    def changes(self) -> Changes:
        """The changes of the batch: upserts and deletes of the derivation's own tables. The next batch begins."""

    def settle(self) -> None:
        """The changes are stored: drop rows not needed in memory."""


class Derivation(msgspec.Struct, frozen=True, kw_only=True):
    """Rows computed from others. ``begin`` makes its state over the rows of a folder.

    ``facts`` are its own fact types, ``follows`` the projections with changed rows for it, ``reads`` those it also
    reads. ``version`` grows when the rows of the same history would differ.
    """

    name: str
    version: int
    tables: tuple[sa.Table, ...]
    facts: tuple[type[Fact], ...]
    follows: tuple[Projection, ...]
    reads: tuple[Projection, ...] = ()
    begin: Callable[[Rows, Restate], Derived]


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the rows of the derivation ``of``: each table with the share of one row."""

    name: str
    version: int
    of: str
    tables: tuple[tuple[sa.Table, Shares], ...]


class CreatedView(Protocol):
    """A view for users."""

    @property
    def name(self) -> str:
        """Its name."""

    def created(self, dialect: str) -> str:
        """The statement to create it."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of a ledger about a history. ``derivations`` in the order of apply and follow."""

    projections: tuple[Projection, ...]
    derivations: tuple[Derivation, ...]
    sums: tuple[Sum, ...]
    #: Tables computed from the history alone, in the order of the digest.
    tables: tuple[sa.Table, ...]
    views: tuple[CreatedView, ...]

    @property
    def version(self) -> str:
        """The version of each part by its name: the ledger's description of its rows."""
        return ",".join(f"{part.name}={part.version}" for part in self.parts)

    @property
    def parts(self) -> tuple[Projection | Derivation | Sum, ...]:
        """Every part with a version of its own, each after the parts it needs."""
        return (*self.projections, *self.derivations, *self.sums)

    def needs(self, part: Projection | Derivation | Sum) -> set[str]:
        """The names of the parts needed to fold ``part``."""
        if isinstance(part, Sum):
            return {part.of}
        if isinstance(part, Derivation):
            return {projection.name for projection in (*part.follows, *part.reads)}
        return set()

    def current(self, version: str) -> Model:
        """The parts with rows in a ledger of ``version``, if their needed parts are unchanged."""
        known = set(version.split(","))
        found: set[str] = set()
        for part in self.parts:
            if f"{part.name}={part.version}" in known and self.needs(part) <= found:
                found.add(part.name)
        return self.only(found)

    def missing(self, version: str) -> Model:
        """The parts without rows in a ledger of ``version``."""
        there = {part.name for part in self.current(version).parts}
        return self.only({part.name for part in self.parts} - there)

    def with_needs(self, part: Model) -> Model:
        """``part`` of this model with all parts it needs."""
        found = {one.name for one in part.parts}
        for one in reversed(self.parts):
            if one.name in found:
                found |= self.needs(one)
        return self.only(found)

    def only(self, names: Collection[str]) -> Model:
        """The parts of these names."""
        projections = tuple(one for one in self.projections if one.name in names)
        derivations = tuple(one for one in self.derivations if one.name in names)
        sums = tuple(one for one in self.sums if one.name in names)
        kept = {one.table for one in projections}
        kept |= {table for one in derivations for table in one.tables}
        kept |= {table for one in sums for table, _ in one.tables}
        return Model(
            projections=projections,
            derivations=derivations,
            sums=sums,
            tables=tuple(table for table in self.tables if table in kept),
            views=self.views,
        )

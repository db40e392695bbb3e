"""The cards of a cluster at each time.

Of each pool the slices of the newest generation count, among those that exist at that time. Slices missing in a
complete list are gone from that list on.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from bus.envelope import Event
from bus.events.observations import ObjectsListed
from bus.events.vocabulary import Fact
from projections import timelines
from projections.devices import slices
from projections.devices.slices import GONE, Card, Offer, Slice
from projections.engine.changes import Changes, Columns
from projections.engine.contract import Key
from projections.engine.model import Derivation, Restate
from projections.engine.rows import Rows
from projections.inventory.shape import card_supply, slice_departures, slice_lists
from projections.lists.parts import part_of
from projections.lists.recent import RecentLists

#: Parts of complete lists in memory.
PARTS_KEPT = 64
#: Pools in one statement.
_ASKED = 500
_OF_POOLS = sa.select(slices.slices).where(
    slices.slices.c.cluster == sa.bindparam("cluster"),
    slices.slices.c.driver == sa.bindparam("driver"),
    slices.slices.c.pool.in_(sa.bindparam("keys", expanding=True)),
)


class CardSupply:
    """The cards of a folder: see :class:`projections.engine.model.Derived`."""

    def __init__(self, rows: Rows, restate: Restate) -> None:
        self._rows = rows
        self._lists = RecentLists(
            rows.reader.select, PARTS_KEPT, slice_lists, None, slice_departures
        )
        self._touched: dict[str, None] = {}
        self._pools: set[Key] = set()

    def open(self) -> None:
        """Take in the newest lists."""
        self._lists.open()

    def begin(self, facts: Sequence[tuple[Event, Fact]]) -> None:
        """Nothing is asked before."""

    def apply(self, event: Event, fact: Fact) -> None:
        """Take a complete list of slices."""
        if not isinstance(fact, ObjectsListed) or fact.kind != slices.KIND:
            return
        part = part_of(event, fact)
        if self._lists.add(part) is None:
            return
        table = slices.slices.c
        query = sa.select(table.driver, table.pool).where(
            table.cluster == part.cluster, table.vanished == 0, table.uid >= part.first,
            *([table.uid < part.until] if part.until else []),
        )  # fmt: skip
        # Lists of slices are few. A slice missing in an older one may be in this one: all slices in it are checked
        # again.
        self._pools |= {(part.cluster, *found) for found in self._rows.reader.select(query)}

    def check(self, row: Any) -> None:
        """Any row can be followed."""

    def follow(self, before: Any, after: Any, sequence: int) -> None:
        """A slice changed."""
        self._touched[after.uid] = None
        self._pools |= {(one.cluster, one.driver, one.pool) for one in (before, after) if one}

    def changes(self) -> Changes:
        """The cards of the pools changed in the batch."""
        pools, self._pools = self._pools, set()
        touched, self._touched = self._touched, {}
        listed = self._lists.changes()
        upserts = listed.upserts
        rows: list[Columns] = []
        now: dict[str, Slice] = {one.uid: one for one in self._stored(pools)}
        now |= {uid: self._rows.get(slices.projection, (uid,)) for uid in touched}
        by_pool: dict[Key, list[Slice]] = defaultdict(list)
        for _, one in sorted(now.items()):
            by_pool[one.cluster, one.driver, one.pool].append(one)
        for key in sorted(pools):
            rows += self._of_pool(key, by_pool[key])
        if rows:
            upserts[card_supply] = rows
        origins = ["/".join(key) for key in sorted(pools)]
        deletes: list[tuple[sa.Table, str, list[str]]] = [(card_supply, "origin", origins)]
        return Changes([one for one in (*deletes, *listed.deletes) if one[2]], upserts)

    def settle(self) -> None:
        """Drop stored rows."""
        self._lists.settle()

    def _stored(self, pools: Iterable[Key]) -> Iterator[Slice]:
        by_driver: dict[Key, list[str]] = defaultdict(list)
        for cluster, driver, pool in sorted(pools):
            by_driver[cluster, driver].append(pool)
        for (cluster, driver), names in by_driver.items():
            for start in range(0, len(names), _ASKED):
                values = {
                    "cluster": cluster,
                    "driver": driver,
                    "keys": names[start : start + _ASKED],
                }
                for row in self._rows.reader.select(_OF_POOLS, values):
                    yield slices.projection.codec.row(row)

    def _of_pool(self, key: Key, found: list[Slice]) -> list[Columns]:
        offered = [(row, self._timeline(row)) for row in found]
        seconds = sorted({second for _, timeline in offered for second, _ in timeline})
        begun: dict[Card, int] = {}
        rows: list[Columns] = []
        sequence = max((row.sequence for row in found), default=0)

        def write(card: Card, end_s: int | None) -> None:
            start_s = begun.pop(card)
            rows.append(
                (key[0], card.name, start_s, end_s, card.node, card.model, "/".join(key), sequence)
            )

        for second in seconds:
            now = _cards_at([timeline for _, timeline in offered], second)
            for card in [card for card in begun if card not in now]:
                write(card, second)
            begun |= {card: second for card in now if card not in begun}
        for card in list(begun):
            write(card, None)
        return rows

    def _timeline(self, row: Slice) -> list[tuple[int, Any]]:
        found = timelines.changes(row.history)
        if row.history[-1][2] != GONE:
            missed_us = self._lists.absence(row).missed_us
            if missed_us is not None:
                found.append((max(found[-1][0], missed_us // timelines.MICROSECONDS), GONE))
        return found


def _cards_at(timelines_: list[list[tuple[int, Any]]], second: int) -> set[Card]:
    """The cards of the newest generation; of two different entries for one card one counts."""
    now = [
        offer
        for timeline in timelines_
        if timeline[0][0] <= second and isinstance(offer := timelines.at(timeline, second), Offer)
    ]
    newest = max((offer.generation for offer in now), default=0)
    found: dict[str, Card] = {}
    for offer in now:
        for card in offer.cards if offer.generation == newest else ():
            found[card.name] = max(card, found.get(card.name, card), key=repr)
    return set(found.values())


derivation = Derivation(
    name="card_supply",
    version=4,
    tables=(card_supply, slice_lists, slice_departures),
    facts=(ObjectsListed,),
    follows=(slices.projection,),
    begin=CardSupply,
)

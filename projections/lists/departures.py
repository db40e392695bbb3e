"""Departures of pods and claims from the complete lists: the last list with the object, and the next one without it.

So a question about a long-absent object reads no lists. Departures follow from the set of lists: a late list changes the
departures around it.

Source: docs/accounting.md (end unseen).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from projections.lists.parts import PodListPart

Select = Callable[..., list[tuple[Any, ...]]]

#: A part, and its uids [from, until) with an effect; "" is no upper end.
Stretch = tuple[PodListPart, str, str]
#: The times of the list with an object, and of the one without it.
Departure = tuple[int, int]

#: Uids of one query.
_ASKED = 500


def stretches(part: PodListPart, until: str, others: Iterable[PodListPart]) -> list[Stretch]:
    """The nearest of ``others`` for each uid from the start of ``part`` until ``until``. ``others``: nearest first."""
    found: list[Stretch] = []
    left = [(part.first, until)]
    for other in others:
        rest: list[tuple[str, str]] = []
        for first, end in left:
            lo, hi = max(first, other.first), _earlier(end, other.until)
            if hi and lo >= hi:
                rest.append((first, end))
                continue
            found.append((other, lo, hi))
            rest += [(first, lo)] if first < lo else []
            rest += [(hi, end)] if hi and (not end or hi < end) else []
        left = rest
        if not left:
            break
    return found


def _earlier(one: str, other: str) -> str:
    return min(one, other) if one and other else one or other


def changes(
    before: list[Stretch], after: list[Stretch], old: PodListPart | None, new: PodListPart
) -> Iterator[tuple[str, set[Departure], set[Departure]]]:
    """(uid, removed departures, added departures) as ``new`` replaces ``old`` between the lists around it."""
    if old is None and not after:
        # The newest list, as nearly all are.
        for part, first, until in before:
            for uid in part.uids - new.uids:
                if first <= uid and (not until or uid < until):
                    yield uid, set(), {(part.time_us, new.time_us)}
        return
    left = _by_uid(before)
    right = _by_uid(after)
    for uid in {*left, *new.uids, *(old.uids if old else ())}:
        around = [left.get(uid) or _at(before, uid)], [right.get(uid) or _at(after, uid)]
        was = _departures(uid, [*around[0], old, *around[1]])
        now = _departures(uid, [*around[0], new, *around[1]])
        if was != now:
            yield uid, was - now, now - was


def _by_uid(found: list[Stretch]) -> dict[str, PodListPart]:
    return {
        uid: part
        for part, first, until in found
        for uid in part.uids
        if first <= uid and (not until or uid < until)
    }


def _at(found: list[Stretch], uid: str) -> PodListPart | None:
    return next((p for p, lo, hi in found if lo <= uid and (not hi or uid < hi)), None)


def _departures(uid: str, parts: list[PodListPart | None]) -> set[Departure]:
    covering = [part for part in parts if part is not None and part.covers(uid)]
    return {
        (one.time_us, other.time_us)
        for one, other in pairwise(covering)
        if uid in one.uids and uid not in other.uids
    }


class Departures:
    """The rows of departures, stored and new ones."""

    def __init__(self, select: Select, table: sa.Table) -> None:
        self._select = select
        self._table = table
        # Built once: building the query takes as long as running it.
        self._newest = (
            sa.select(table.c.seen_us)
            .where(
                table.c.uid == sa.bindparam("uid"),
                table.c.cluster == sa.bindparam("cluster"),
                table.c.seen_us < sa.bindparam("until"),
            )
            .order_by(table.c.seen_us.desc())
            .limit(sa.bindparam("count", type_=sa.Integer()))
        )
        #: uid → (cluster, when a list had it) → when one lacked it, and the event; None for a removed departure.
        self._changed: dict[str, dict[tuple[str, int], tuple[int, int] | None]] = defaultdict(dict)
        self._unwritten: set[str] = set()

    def change(
        self, uid: str, removed: set[Departure], added: set[Departure], by: PodListPart
    ) -> None:
        """A list changed the departures of an object."""
        known = self._changed[uid]
        self._unwritten.add(uid)
        known.update({(by.cluster, seen_us): None for seen_us, _ in removed})
        known.update({(by.cluster, seen_us): (us, by.sequence) for seen_us, us in added})

    def newest(self, cluster: str, uid: str, until_us: int) -> int | None:
        """The time of the newest list before ``until_us`` with an object missing in the next one."""
        changed = {
            seen_us: left
            for (of, seen_us), left in self._changed.get(uid, {}).items()
            if of == cluster and seen_us < until_us
        }
        values = {"uid": uid, "cluster": cluster, "until": until_us, "count": 1 + len(changed)}
        stored = [row[0] for row in self._select(self._newest, values)]
        left = [us for us in stored if us not in changed]
        left += [us for us, found in changed.items() if found is not None]
        return max(left, default=None)

    def rows(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Uids with all rows rewritten, and the rows. The next batch begins."""
        unwritten, self._unwritten = self._unwritten, set()
        again = sorted(uid for uid in unwritten if None in self._changed[uid].values())
        found = {uid: dict(self._changed[uid]) for uid in sorted(unwritten)}
        for start in range(0, len(again), _ASKED):
            query = sa.select(self._table).where(
                self._table.c.uid.in_(again[start : start + _ASKED])
            )
            for uid, cluster, seen_us, missed_us, sequence in self._select(query):
                found[uid].setdefault((cluster, seen_us), (missed_us, sequence))
        rows = [
            (uid, *key, *left)
            for uid, departures in found.items()
            for key, left in departures.items()
            if left is not None
        ]
        return again, rows

    def settle(self) -> None:
        """The rows are stored."""
        self._changed.clear()

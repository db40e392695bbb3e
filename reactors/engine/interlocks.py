"""Safety before automation: times without destructive decisions, and the largest number of them. A fold, pure.

- In any five minutes at most max(1, 2 % of a reactor's objects) destructive decisions, of all reactors together.
- None for ten minutes, and no warnings either, after the history was recovered, after a complete list without more
  than 20 % of the known objects, and after two ticks more than 60 s apart in either direction. The cause may
  only be a stopped Bursar, but then its knowledge is as old.
- The reactor's own :class:`~reactors.engine.settings.Pace`.

All of it follows from facts in the history, and time is that of ticks, so a replay has the same limits. An
object observed after the request for a list is not missing from it.

Source: docs/reliability.md; docs/architecture.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.clock import ClockTicked
from bus.events.decisions import Decision
from bus.events.histories import HistoryRecovered
from bus.events.observations import ObjectsListed
from bus.events.pods import PodObserved, PodsListed, PodVanished
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from projections.engine.parts import Part, SavedDecision
from reactors.engine.settings import Pace

WINDOW_US = 300 * SECOND_US
HOLD_US = 600 * SECOND_US
JUMP_US = 60 * SECOND_US
#: Of a reactor's objects, in one window: one in fifty.
SHARE = 50
#: One in five may be missing in a list.
LOST = 5

#: So many unfinished lists of one kind are kept: each watcher reads one at a time.
LISTS = 4

POD = "Pod"


class _List(msgspec.Struct):
    """A list whose parts are being read: the number of objects known before it, and of those lost since.

    Parts of several watchers' lists interleave, so a loss in any of them counts for each list being read.
    """

    asked_us: int
    known: int
    lost: int = 0


class SavedInterlocks(msgspec.Struct):
    """The part of a snapshot for the interlocks."""

    ticked_us: int
    _reason: str
    _until_us: int
    _pending: str
    _seen_us: dict[str, dict[str, int]]
    _lists: dict[str, dict[str, _List]]
    _recent: list[SavedDecision]


class Interlocks(Part):
    """Folded from the events of a cluster."""

    Saved = SavedInterlocks

    reads: ClassVar[tuple[type[Fact], ...]] = (
        PodObserved, PodVanished, PodsListed, WorkloadObserved, WorkloadVanished, ObjectsListed,
        HistoryRecovered, Decision, ClockTicked,
    )  # fmt: skip

    def __init__(self) -> None:
        #: The newest tick; 0 = none yet.
        self.ticked_us = 0
        self._reason = ""
        self._until_us = 0
        #: The holds from the next tick on.
        self._pending = ""
        self._seen_us: dict[str, dict[str, int]] = {}
        #: Unfinished lists by kind and version.
        self._lists: dict[str, dict[str, _List]] = {}
        self._recent: list[Decision] = []

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event. A decision counts from the moment it is made."""
        at_us = event.time_us
        if isinstance(fact, PodObserved):
            self._seen_us.setdefault(POD, {})[fact.uid] = at_us
        elif isinstance(fact, WorkloadObserved):
            self._seen_us.setdefault(fact.kind, {})[fact.uid] = at_us
        elif isinstance(fact, PodVanished):
            self._seen_us.get(POD, {}).pop(fact.uid, None)
        elif isinstance(fact, WorkloadVanished):
            self._seen_us.get(fact.kind, {}).pop(fact.uid, None)
        elif isinstance(fact, PodsListed):
            self._listed(POD, fact, at_us)
        elif isinstance(fact, ObjectsListed):
            self._listed(fact.kind, fact, at_us)
        elif isinstance(fact, HistoryRecovered):
            self._pending = "history_recovered"
        elif isinstance(fact, Decision) and fact.is_destructive:
            self._recent.append(fact)
        elif isinstance(fact, ClockTicked):
            self._ticked(at_us)

    def hold(self, now_us: int) -> str:
        """The reason to decide nothing at ``now_us`` without a person's request; "" = decisions are allowed."""
        return self._pending or (self._reason if now_us < self._until_us else "")

    def gate(self, now_us: int) -> LimitGate:
        """The limits on decisions at ``now_us``."""
        recent = [one for one in self._recent if now_us - one.at_us < WINDOW_US]
        # Pending holds start at the next tick.
        until_us = now_us + HOLD_US if self._pending else self._until_us
        return LimitGate(self.hold(now_us), now_us, recent, until_us)

    def _ticked(self, at_us: int) -> None:
        if self.ticked_us and abs(at_us - self.ticked_us) > JUMP_US:
            self._pending = "clock_jumped"
        if self._pending:
            self._reason, self._until_us, self._pending = self._pending, at_us + HOLD_US, ""
        self.ticked_us = at_us
        self._recent = [one for one in self._recent if abs(at_us - one.at_us) < WINDOW_US]

    def _listed(self, kind: str, fact: PodsListed | ObjectsListed, asked_us: int) -> None:
        seen = self._seen_us.setdefault(kind, {})
        lists = self._lists[kind] = self._unfinished(kind, asked_us)
        if fact.resource_version not in lists:
            lists[fact.resource_version] = _List(asked_us, len(seen))
        present = set(fact.uids)
        lost = [
            uid
            for uid, seen_us in seen.items()
            if seen_us < asked_us
            and fact.first <= uid
            and (not fact.until or uid < fact.until)
            and uid not in present
        ]
        for uid in lost:
            del seen[uid]
        for one in lists.values():
            one.lost += len(lost)
            if one.lost * LOST > one.known:
                self._pending = "objects_lost"
        if not fact.until:
            del lists[fact.resource_version]

    def _unfinished(self, kind: str, asked_us: int) -> dict[str, _List]:
        """The unfinished lists of a kind; one given up by its watcher is forgotten in time."""
        found = [
            (version, one)
            for version, one in self._lists.get(kind, {}).items()
            if abs(asked_us - one.asked_us) < HOLD_US
        ]
        return dict(found[-LISTS:])


class LimitGate:
    """Admits decisions of one moment while limits allow, in the given order."""

    def __init__(
        self, hold: str, now_us: int, recent: list[Decision], held_until_us: int = 0
    ) -> None:
        self._hold = hold
        self._now_us = now_us
        self._recent = recent
        self._held_until_us = held_until_us

    def refuses(self, decision: Decision, *, managed: int, pace: Pace) -> str:
        """Why it may not be made, a token; "" = it is let through, and counts from now on."""
        if decision.expires_us <= self._now_us:
            return "evidence_old"
        if self._hold and not decision.is_asked:
            return self._hold
        if not decision.is_destructive:
            return ""
        reason = self._beyond(decision, managed, pace)
        if not reason:
            self._recent.append(decision)
        return reason

    def until_us(self, decision: Decision, reason: str, *, managed: int, pace: Pace) -> int:
        """The time at which a decision refused for ``reason`` may be made, without further events; 0 = unknown."""
        if reason == self._hold:
            return self._held_until_us
        for limit in self._limits(decision, managed, pace):
            if limit.reason == reason and 0 < limit.most <= len(limit.counted):
                # As soon as no more than one less than the limit is left in its window.
                ended = sorted(limit.counted)[len(limit.counted) - limit.most]
                return ended + limit.window_us
        return 0

    def _beyond(self, decision: Decision, managed: int, pace: Pace) -> str:
        limits = self._limits(decision, managed, pace)
        return next((one.reason for one in limits if len(one.counted) >= one.most), "")

    def _limits(self, decision: Decision, managed: int, pace: Pace) -> list[_Limit]:
        target, minute_us = decision.target, 60 * SECOND_US
        # Shadow decisions use up no limits of real ones.
        alike = [one for one in self._recent if one.is_shadow == decision.is_shadow]
        mine = [one for one in alike if one.reactor == decision.reactor]
        found = [
            _Limit("blast_radius", max(1, managed // SHARE), alike),
            _Limit(
                "per_minute", pace.per_minute,
                [one for one in mine if one.at_us > self._now_us - minute_us], minute_us,
            ),
            _Limit(
                "per_namespace", pace.per_namespace,
                [one for one in mine if one.target.namespace == target.namespace],
            ),
            _Limit(
                "per_workload", pace.per_workload,
                [one for one in mine if one.target.uid == target.uid],
            ),
        ]  # fmt: skip
        if target.node:
            there = [one for one in mine if one.target.node == target.node]
            found.insert(3, _Limit("per_node", pace.per_node, there))
        return found


class _Limit:
    """At most ``most`` decisions in a window; ``counted``: when those in it were made."""

    def __init__(
        self, reason: str, most: int, counted: list[Decision], window_us: int = WINDOW_US
    ) -> None:
        self.reason = reason
        self.most = most
        self.counted = [one.at_us for one in counted]
        self.window_us = window_us

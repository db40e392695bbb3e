"""ADAPTER: the journals of all quota trees, followed from the bus and held in memory; and appending to them.

A process appends its decisions on a tree behind the entry that they are based on. If another process, or another part of
this one, appended since, nothing is stored. The reader then brings the other entries, and the decision is made
again. There is no lock and no leader between webhook processes.

Source: docs/architecture.md (admission); transport contract (``expect``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
from msgspec.structs import replace

from bus.clock import Clock
from bus.crashpoints import crashpoint
from bus.envelope import Event, key_token
from bus.errors import (
    BusUnavailableError,
    EnvelopeError,
    HistoryDivergedError,
    WrongExpectationError,
)
from bus.events.admissions import (
    JOURNAL,
    AdmissionDecided,
    entries,
    grouped,
)
from bus.events.vocabulary import remember
from bus.transport import Expectation, Transport
from bus.waiting import reached
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.forest import Forest
from projections.quota_trees.tree import Fact, SavedTree
from reactors.engine.turns import JournalTurns

_JOURNAL: dict[str, type[Fact]] = {fact.wire_type: fact for fact in JOURNAL}

_log = logging.getLogger(__name__)

#: Bytes of decisions in one event; a message of the stream carries 64 KiB.
LARGEST_GROUP = 48 * 1024

#: The loser's wait for the winner's entries before it tries again.
CATCH_UP_SECONDS = 1.0


class SavedJournals(msgspec.Struct):
    """The journals in a snapshot."""

    trees: dict[str, SavedTree]
    places: dict[tuple[str, str], str]
    parked: int
    sequence: int


class Journals(Forest):
    """Every tree of a cluster, as far as it was read."""

    Saved = SavedJournals
    derived = frozenset(
        {
            "holders", "_transport", "_clock", "_cluster", "_source", "_moved", "_own", "_listeners", "_turns",
        }
    )  # fmt: skip

    def __init__(self, transport: Transport, clock: Clock, *, cluster: str, source: str) -> None:
        super().__init__()
        #: Invalid entries. Not 0 means that an unauthorized writer publishes.
        self.parked = 0
        #: The last folded sequence of the history.
        self.sequence = 0
        self._transport = transport
        self._clock = clock
        self._cluster = cluster
        self._source = source
        self._moved = asyncio.Event()
        #: By sequence: own entries that are not read back yet. They are not decoded once more.
        self._own: dict[int, tuple[tuple[Event, Fact], ...]] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._turns: dict[str, JournalTurns] = defaultdict(JournalTurns)

    @property
    def is_pure(self) -> bool:
        """Whether it is the fold of the history up to its sequence: no own entry is still to be read."""
        return not self._own

    def listen(self, take: Callable[[Event], None]) -> None:
        """Let ``take`` see every event of the history, journal entries included, after they were applied."""
        self._listeners.append(take)

    async def follow(self, then: Callable[[], None] = lambda: None) -> None:
        """Read the history after the known part, for ever. ``then`` is called between two events now and then."""
        async for events in self._transport.read(after=self.sequence, linger_seconds=0.0):
            self.apply(events)
            then()

    def apply(self, events: Sequence[Event]) -> None:
        """Take in the next events of the history."""
        for event in events:
            try:
                own = self._own.pop(event.sequence, None)
                if own is not None:
                    # Applied when it was appended.
                    for one, fact in own:
                        remember(one, fact)
                        self._tell(one)
                    continue
                ours = entries(event)
                if event.cluster == self._cluster and event.type.startswith("admission."):
                    self._entered(event, ours)
                for one in ours:
                    self._tell(one)
            except (EnvelopeError, HistoryDivergedError) as error:
                # The ledger parks it, too; a newer version than ours is raised, and stops this process.
                self.parked += 1
                if event.type.startswith("admission.") and event.cluster == self._cluster:
                    self.tree(event.key).skip(event.sequence)
                _log.error(
                    "event %d is passed over: %s",
                    event.sequence,
                    error,
                    extra={"event": event.sequence},
                )
        self.sequence = events[-1].sequence
        self._wake()

    def _tell(self, one: Event) -> None:
        for take in self._listeners:
            take(one)

    def _entered(self, event: Event, ours: tuple[Event, ...]) -> None:
        """Fold an entry, or a group of them. Forged, stale and unreadable ones raise and change nothing
        (docs/wrong-input.md E11).

        A writer with the expected sequence cannot leave one, and every reader skips the same.
        """
        tree = self.tree(event.key)
        if event.sequence <= tree.sequence:
            # An own append: the tree has no entries between the expected and the stored sequence.
            return
        for one in ours:
            entry = _JOURNAL.get(one.type)
            if entry is None:
                raise EnvelopeError("no entry of a journal that this version knows", type=one.type)
            fact = entry.read(one)
            self._apply(tree, fact, event.sequence, event.time_us, event.source)

    async def moved(self) -> None:
        """Return when something more was read or appended."""
        await self._moved.wait()

    async def reached(self, sequence: int) -> None:
        """Return when the history was read up to ``sequence``. Raises StalledError where it does not move for a minute."""
        await reached(lambda: self.sequence, sequence, "the reading of the history")

    async def caught_up(self) -> None:
        """Return when the history was read up to its present end. Raises BusUnavailableError after a second without that."""
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                end = (await self._transport.head()).last_sequence
                while self.sequence < end:
                    await self._moved.wait()
        except TimeoutError:
            raise BusUnavailableError(reason="the history is not read up to date") from None

    async def turn(self, tree: str) -> None:
        """Return when it is this process's turn to append to a tree's journal."""
        turns = self._turns[tree]
        while (seconds := turns.wait(self._source, time.monotonic())) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._moved.wait()

    async def append(self, draft: TreeOverlay, ids: Sequence[str]) -> None:
        """Append the draft's decisions to its tree's journal: all or none, and apply them.

        ``ids`` need to be unique in the cluster; trees of two clusters may have one name.
        Raises WrongExpectationError when another process was faster, or another part of this one, since the draft was begun; see
        :meth:`newer`.
        """
        tree = draft.tree
        events = self._events(draft, [f"{self._cluster}/{id}" for id in ids])
        subject = f"bursar.{self._cluster}.admission.*.{key_token(tree.name)}"
        crashpoint("journal.before_append")
        began = time.monotonic()
        sequences = await self._transport.publish(
            [event for event, _ in events], expect=Expectation(subject, draft.known)
        )
        crashpoint("journal.after_append")
        self._turns[tree.name].took(time.monotonic() - began)
        facts = iter(draft.facts)
        for sequence, (_, ours) in zip(sequences, events, strict=True):
            ours_stored = list(islice(facts, len(ours)))
            for fact, time_us in ours_stored:
                self._apply(tree, fact, sequence, time_us, self._source)
            if sequence > self.sequence:
                self._own[sequence] = tuple(
                    (replace(one, sequence=sequence), fact)
                    for one, (fact, _) in zip(ours, ours_stored, strict=True)
                )
        self._wake()

    def _events(self, draft: TreeOverlay, ids: list[str]) -> list[tuple[Event, list[Event]]]:
        """The draft's facts as events, each with the entries in it: decisions of one moment share one."""
        place = {"cluster": self._cluster, "key": draft.tree.name, "source": self._source}
        grouped_events: list[tuple[Event, list[Event]]] = []
        group: list[Event] = []
        size = 0
        for (fact, time_us), id in zip(draft.facts, ids, strict=True):
            entry = fact.event(id=id, time_us=time_us, **place)
            more = len(entry.body) + len(id)
            is_decision = isinstance(fact, AdmissionDecided)
            is_full = size + more > LARGEST_GROUP
            if group and (not is_decision or is_full or time_us != group[0].time_us):
                grouped_events.append((grouped(group), group))
                group, size = [], 0
            if is_decision:
                group.append(entry)
                size += more
            else:
                grouped_events.append((entry, [entry]))
        if group:
            grouped_events.append((grouped(group), group))
        return grouped_events

    async def newer(self, tree: Tree, sequence: int, refused: WrongExpectationError) -> None:
        """Return when the tree is newer than ``sequence``: ``refused`` reports an entry behind it.

        Invalid entries there are skipped. Raises BusUnavailableError if no entry comes: then the reader is
        behind.
        """
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                while tree.sequence <= sequence:
                    if sequence < refused.last_sequence <= self.sequence:
                        tree.skip(refused.last_sequence)
                        return
                    await self._moved.wait()
        except TimeoutError:
            raise BusUnavailableError(reason="the history is not read up to date") from None

    def _apply(self, tree: Tree, fact: Fact, sequence: int, time_us: int, source: str) -> None:
        is_news = sequence > tree.sequence
        self.enter(tree, fact, sequence, time_us)
        if isinstance(fact, AdmissionDecided) and is_news and fact.request:
            self._turns[tree.name].appended(source, time.monotonic())

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

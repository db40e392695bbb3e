"""ADAPTER: follows the history, publishes the decisions of reactors, runs their effects, and reports the outcomes.

- Decisions of one trigger are one atomic batch, on the condition that the newest decision known here is still the
  newest one. So a process that was paused, or a second one, appends nothing; it reads on and decides at the next tick.
- Only fresh triggers lead to decisions: those read after the history's end at the start, and not late.
- Effects are carried out one after another, or several at once if they are independent, each only if it is not overtaken
  by then. There is no durable consumer, see :mod:`reactors.engine.effects`.
- A reactor's limit per minute limits effects, too: after an outage of the API server the decisions of several
  minutes are outstanding at once.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from bus.clock import SECOND_US, Clock
from bus.crashpoints import crashpoint
from bus.envelope import Event
from bus.errors import (
    ConflictError,
    EnvelopeError,
    MalformedJsonError,
    NotFoundError,
    ObservationError,
    PermissionDeniedError,
    RequestRefusedError,
    RetryableError,
    UnknownRightsError,
    WrongExpectationError,
)
from bus.events.clock import LEADER, TICK_US, ClockTicked
from bus.events.decisions import Decision, EffectSettled, Result
from bus.events.policies import Mode
from bus.transport import Expectation, Transport
from bus.waiting import Moves, reached
from reactors.engine.adapters import Effector
from reactors.engine.effects import hindrance
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica, decision_event
from reactors.engine.settings import ReactorPolicy
from reactors.engine.snapshots import Snapshots

#: A trigger read later than this after its publishing leads to no decision: the next one comes soon.
LATE_US = 30 * SECOND_US
#: Between two attempts after a temporary failure, seconds.
AGAIN_SECONDS = 5.0
#: Between two attempts after the API server denied a right: it may have just started.
RIGHTS_TIMES = 3
#: So many independent decisions are done at once: as many as there are connections for small writes.
AT_ONCE = 8

_log = logging.getLogger(__name__)


class Runner:
    """Runs ``replica`` live. ``effectors`` by wire type of their decisions; ``snapshots`` writes some of it now and then."""

    def __init__(
        self,
        replica: Replica,
        transport: Transport,
        clock: Clock,
        effectors: Mapping[str, Effector],
        snapshots: Snapshots | None = None,
        troubles: Mapping[str, Callable[[], Iterable[str]]] | None = None,
        moves: Moves | None = None,
    ) -> None:
        """``moves`` is called after each read event."""
        self.replica = replica
        #: By activity: current obstacles of its effects, in sentences for people.
        self.troubles = troubles or {}
        #: Unreadable events. Not 0 means that an unauthorized writer publishes.
        self.parked = 0
        self._transport = transport
        self._clock = clock
        self._effectors = effectors
        self._snapshots = snapshots
        #: Decision to when it may be tried again, seconds of the loop's clock.
        self._again_at: dict[str, float] = {}
        #: How often the API server knew of no right to do a decision.
        self._rightless: dict[str, int] = {}
        #: When this process did destructive decisions, by reactor, the oldest first; microseconds UTC.
        self._done_us: dict[str, list[int]] = {}
        #: Decisions settled by this process; their outcome may still have to be read.
        self._settled: set[str] = set()
        #: Triggers up to here are history.
        self._past = 0
        #: The newest conclusion of this process; and the time of the newest event.
        self._concluded = 0
        self._newest_us = 0
        self._moves = moves or Moves()

    async def follow(self) -> None:
        """Read the history after the replica's last event, for ever, and decide."""
        self._past = (await self._transport.head()).last_sequence
        async for events in self._transport.read(after=self.replica.sequence, linger_seconds=0.0):
            for event in events:
                await self.apply(event)
            self._moves.wake()
            await self.conclude()
            if self._snapshots is not None:
                self._snapshots.offer()

    async def apply(self, event: Event) -> None:
        """Take in the next event; on a fresh trigger, decide and publish."""
        self._newest_us = event.time_us
        try:
            self.replica.apply(event)
        except EnvelopeError as error:
            # The ledger parks it, too; a newer version than ours is raised, and stops this process.
            self.parked += 1
            _log.error(
                "event %d is passed over: %s",
                event.sequence,
                error,
                extra={"event": event.sequence},
            )
            return
        if event.sequence <= self._past or not self.replica.is_trigger(event):
            return
        if event.time_us >= self._clock.now_us() - LATE_US:
            await self._decide(event)

    async def conclude(self) -> None:
        """Decide once on all events read together, for reactors with conclusions; not before the last conclusion was read."""
        replica = self.replica
        if replica.sequence < max(self._past, self._concluded):
            return
        if self._newest_us < self._clock.now_us() - LATE_US:
            return
        for expects, events in replica.concluded().items():
            sequences = await self._append(events, expects)
            self._concluded = max([self._concluded, *sequences])

    async def reached(self, sequence: int) -> None:
        """Return when the history was read up to ``sequence``. Raises StalledError where it does not move for a minute."""
        await reached(lambda: self.replica.sequence, sequence, "the reading of the history")

    async def _decide(self, trigger: Event) -> None:
        replica = self.replica
        batches: dict[str, list[Event]] = {}
        for one in replica.decide(trigger):
            expects = replica.reactors[one.reactor].expects
            batches.setdefault(expects, []).append(decision_event(one, replica.cluster))
        for expects, events in batches.items():
            sequences = await self._append(events, expects)
            replica.made(
                [
                    msgspec.structs.replace(event, sequence=sequence)
                    for event, sequence in zip(events, sequences, strict=False)
                ]
            )

    async def _append(self, events: list[Event], expects: str) -> list[int]:
        """Publish decisions, unless another process did since; their sequences, none where it did."""
        replica = self.replica
        subject = f"bursar.{replica.cluster}.{expects}.*"
        expected = Expectation(subject, replica.last[expects])
        crashpoint("decision.before_publish")
        try:
            sequences = await self._publish(events, expected)
        except WrongExpectationError:
            _log.info("another process decided before; the next tick decides again")
            return []
        crashpoint("decision.after_publish")
        return sequences

    async def _publish(self, events: list[Event], expected: Expectation) -> list[int]:
        """Their sequences. Whether an uncertain append was stored must be known before the next decision."""
        while True:
            try:
                return await self._transport.publish(events, expect=expected)
            except RetryableError as error:
                # The publisher has tried again by itself; how long to wait now is in the error.
                _log.warning("decisions cannot be published now: %s", error)
                await asyncio.sleep(error.delay_seconds)

    async def act(self) -> None:
        """Carry out all outstanding decisions, for ever."""
        while True:
            sequence = self.replica.sequence
            try:
                await self.work()
            except RetryableError as error:
                _log.warning("effects wait: %s", error)
            if self.replica.sequence == sequence:
                await self._moves.next(AGAIN_SECONDS)

    async def work(self) -> None:
        """Try every outstanding decision once. A temporary failure leaves it outstanding."""
        now = asyncio.get_running_loop().time()
        outstanding = self.replica.effects.outstanding
        self._settled &= outstanding.keys()
        due = [
            one
            for one in outstanding.values()
            if one.id not in self._settled and self._again_at.get(one.id, 0.0) <= now
        ]
        for decision in due:
            if not decision.is_independent:
                await self._try(decision)
        await self._try_all(deque(one for one in due if one.is_independent))

    async def _try_all(self, waiting: deque[Decision]) -> None:
        """Try independent decisions, :data:`AT_ONCE` at a time. The first error is raised once all have ended."""

        async def one_after_another() -> None:
            while waiting:
                await self._try(waiting.popleft())

        workers = (one_after_another() for _ in range(min(AT_ONCE, len(waiting))))
        for ended in await asyncio.gather(*workers, return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended

    async def _try(self, decision: Decision) -> None:
        if self.replica.policies.is_paused and not decision.is_asked:
            return
        if self._is_too_much(decision):
            return
        settled = await self._done(decision)
        if settled is not None:
            await self._settle(decision, *settled)

    def _is_too_much(self, decision: Decision) -> bool:
        """Whether its reactor has reached its pace in the last minute."""
        current = self.replica.policies.of(decision.reactor)
        if not decision.is_destructive or current is None:
            return False
        now_us, known = self._clock.now_us(), self._done_us.get(decision.reactor, ())
        recent = [at_us for at_us in known if 0 <= now_us - at_us < 60 * SECOND_US]
        self._done_us[decision.reactor] = recent
        return len(recent) >= current.policy.pace.per_minute

    async def _done(self, decision: Decision) -> tuple[Result, str] | None:
        """The outcome of a decision; None = it is to be tried again."""
        replica, now_us = self.replica, self._clock.now_us()
        hindered = hindrance(
            decision,
            replica.policies.of(decision.reactor),
            hold=replica.interlocks.hold(now_us),
            overtaken=replica.overtaken(decision),
            now_us=now_us,
        )
        if hindered is not None:
            return hindered
        try:
            crashpoint("effect.before_act")
            result = await self._effectors[decision.wire_type].act(decision)
            crashpoint("effect.after_act")
            return result
        except NotFoundError:
            return "gone", "not_found"
        except (
            RequestRefusedError, PermissionDeniedError, RetryableError, ConflictError, MalformedJsonError,
            ObservationError,
        ) as error:  # fmt: skip
            if self._is_refusal(decision, error):
                return "refused", str(error)[:500]
            # Also where a proxy answers in the API server's stead, or with too much.
            _log.warning("decision %s waits: %s", decision.id, error)
            delay = error.delay_seconds if isinstance(error, RetryableError) else 0.0
            # The history moves all the time; an API server in trouble must not be called at each move.
            self._again_at[decision.id] = asyncio.get_running_loop().time() + max(
                delay, AGAIN_SECONDS
            )
            return None

    def _is_refusal(self, decision: Decision, error: Exception) -> bool:
        """Whether an error is the API server's last word on a decision."""
        if isinstance(error, UnknownRightsError):
            self._rightless[decision.id] = times = self._rightless.get(decision.id, 0) + 1
            return times > RIGHTS_TIMES
        return isinstance(error, RequestRefusedError | PermissionDeniedError)

    async def _settle(self, decision: Decision, result: Result, message: str) -> None:
        fact = EffectSettled(
            decision=decision.id, reactor=decision.reactor, result=result, message=message
        )
        now_us = self._clock.now_us()
        event = fact.event(
            cluster=self.replica.cluster,
            key=decision.id,
            id=f"{decision.id}/settled",
            source=f"effector/{decision.reactor}",
            time_us=now_us,
        )
        if decision.is_destructive and result == "done":
            self._done_us.setdefault(decision.reactor, []).append(now_us)
        try:
            await self._transport.publish([event], expect=Expectation(event.subject, 0))
        except WrongExpectationError:
            _log.info("decision %s was settled by another process", decision.id)
        # Until its outcome is read, a settled decision must not be tried again.
        self._settled.add(decision.id)
        self._again_at.pop(decision.id, None)
        self._rightless.pop(decision.id, None)
        crashpoint("effect.after_settle")


async def tick(transport: Transport, clock: Clock, cluster: str) -> None:
    """Publish the time every ten seconds, for ever. Two tickers publish each tick once."""
    while True:
        now_us = clock.now_us()
        event = ClockTicked().event(
            cluster=cluster,
            key=LEADER,
            id=f"{ClockTicked.wire_type}/{cluster}/{now_us // TICK_US}",
            source="clock",
            time_us=now_us,
        )
        try:
            await transport.publish([event])
        except RetryableError as error:
            _log.warning("the clock cannot tick now: %s", error)
        # By the published time, not by the present one: a sleep that ended a moment early would skip the next tick.
        next_us = (now_us // TICK_US + 1) * TICK_US
        await asyncio.sleep(min(max(next_us - clock.now_us(), 0), TICK_US) / SECOND_US)


async def announce(
    runner: Runner,
    transport: Transport,
    clock: Clock,
    reactor: str,
    mode: Mode,
    policy: ReactorPolicy,
    *,
    author: str,
) -> None:
    """Publish a reactor's new policy, unless the history has it already."""
    fact = policy_changed(reactor, mode, policy, author=author)
    current = runner.replica.policies.of(reactor)
    if current is not None and current.digest == fact.digest:
        return
    now_us = clock.now_us()
    event = fact.event(
        cluster=runner.replica.cluster,
        key=reactor,
        id=f"{fact.wire_type}/{reactor}/{fact.digest}/{now_us}",
        source=f"reactor/{reactor}",
        time_us=now_us,
    )
    (sequence,) = await transport.publish([event])
    await runner.reached(sequence)

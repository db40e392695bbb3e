"""ADAPTER: has every outstanding placement bound, several at once, and says of those that cannot be bound why not.

What is outstanding is folded from the history, so a process that was killed at any moment goes on with the same list: a pod
that it had bound already is found on its node. A placement that got no certain answer keeps its room and is tried
again on the same node: a request that seemed lost may still arrive. Room is given back only where the pod was read and waits,
after every request has run out that may have been on its way: also a refusal may meet a second process that is let through.

An API server that has too much to do, or denies the right, is left alone for a while by all. What a plugin raises keeps the one
pod waiting: it is told, and the pod is tried again later.

Source: docs/scheduling.md; docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from bus.crashpoints import crashpoint
from bus.errors import BursarError, RetryableError
from reactors.scheduling.framework.bind import DONE, LONGEST, Outcomes, Placement, Prepared, seen
from reactors.scheduling.framework.bind_cycle import BindClient, BindCycle, Known

if TYPE_CHECKING:
    from reactors.scheduling.framework.bind_plugins import BindPlugins

#: Placements in work: twice the connections, so that none of these waits for us.
AT_ONCE = 16
#: Between two looks at what is outstanding: as little as this, or twenty times what a look took, where that is more; while
#: placements are in work, of which nothing else says that they were refused; and where nothing was read meanwhile.
LEAST_LOOK_SECONDS = 0.001
LOOK_RATIO = 20
LOOK_SECONDS = 0.02
LONGEST_LOOK_SECONDS = 1.0
#: Before a placement is tried again that got no answer; and before anything is while the right is missing, or what a plugin failed
#: with.
AGAIN_SECONDS = 1.0
DENIED_SECONDS = 30.0
#: After this a bound pod that was not observed on its node is asked about again.
CONFIRM_SECONDS = 300.0
#: So long an API server may still do what was asked: its deadline of a request, and a margin.
LATE_SECONDS = 75.0
#: Between a refusal and a last look at the pod: another process may be binding it at the same moment.
REFUSED_SECONDS = 20.0
#: Why a pod is not bound that every Bind plugin leaves to another.
NOBODY = "no plugin of its profile binds this pod"
#: Most placements that one event reports as not bound.
MOST_REFUSALS = 200

_log = logging.getLogger(__name__)


class OutstandingPlacements(Protocol):
    """Placements that were decided, and neither confirmed nor settled."""

    @property
    def position(self) -> int:
        """Moves when something may have changed."""
        ...

    async def moved(self, seconds: float) -> None:
        """Return when the position moves, or after so long."""
        ...

    def decisions(self) -> Iterable[tuple[str, str]]:
        """Pod and decision of all of them, the oldest first; none while nothing may be done."""
        ...

    def placement(self, uid: str) -> Placement | None:
        """That of one pod; None where there is none any more, or nothing may be done."""
        ...

    def overtaken(self, placement: Placement) -> str:
        """Why it must not be done any more, a token; "" = it may."""
        ...

    def binding(self, placement: Placement) -> tuple[BindPlugins, Known] | None:
        """The plugins of its profile that bind, and what they may read; None where there is no such placement any more."""
        ...


#: Says why placements were not bound. Raises RetryableError where it cannot be published now.
Settle = Callable[[Sequence[tuple[Placement, Outcomes]]], Awaitable[None]]


class Binder:
    """Binds what is outstanding. One in each process that acts; two of them do no harm."""

    def __init__(
        self,
        cluster: BindClient,
        outstanding: OutstandingPlacements,
        settle: Settle,
        on_bound: Callable[[Placement], None],
    ) -> None:
        """``on_bound`` tells people that a pod was bound, where a plugin asks for that."""
        #: What became of placements.
        self.counts: Counter[str] = Counter()
        #: What keeps placements from being bound, in the API server's words; "" while nothing does.
        self.trouble = ""
        #: By pod: what was raised when it was tried last, with the plugin.
        self.failures: dict[str, str] = {}
        self._cluster = cluster
        self._outstanding = outstanding
        self._say = settle
        self._told = on_bound
        self._queue: asyncio.Queue[Placement] = asyncio.Queue()
        #: Pod to decision: what is queued, in work, or done and still outstanding.
        self._known: dict[str, str] = {}
        #: Pod and decision of what is queued or in work, also where it is outstanding no more: it is queued once at a time.
        self._busy: set[tuple[str, str]] = set()
        #: When a known one is tried again, and when anything is; seconds of the loop's clock.
        self._again_at: dict[str, float] = {}
        self._rests_until = 0.0
        #: When a request of a pod was last sent whose answer is not known, while it may still arrive.
        self._uncertain_at: dict[str, float] = {}
        #: Pod to the decision that was refused once, with the words: the pod decides when it is read.
        self._against: dict[str, tuple[str, str]] = {}
        #: By pod and plugin: what plugins keep between the tries of one decision.
        self._data: dict[str, dict[str, Any]] = {}
        self._refused: list[tuple[Placement, Outcomes]] = []
        self._say_at = 0.0
        self._position = -1
        self._next_at = 0.0

    async def run(self) -> None:
        """Bind for ever."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(self._work())
            loop = asyncio.get_running_loop()
            while True:
                began = loop.time()
                self._look()
                spent = loop.time() - began
                await self._settle()
                # Who looks at thousands again and again has no time left to bind them.
                rest = min(max(LOOK_RATIO * spent, LEAST_LOOK_SECONDS), LOOK_SECONDS)
                await asyncio.sleep(rest)
                if self._outstanding.position == self._position and not self._says_now:
                    await self._outstanding.moved(self._rest())

    @property
    def _says_now(self) -> bool:
        return bool(self._refused) and asyncio.get_running_loop().time() >= self._say_at

    def _rest(self) -> float:
        """How long nothing is due. What is in work may be refused at any moment, and nothing else says so."""
        if len(self._again_at) < len(self._known):
            return LOOK_SECONDS
        now = asyncio.get_running_loop().time()
        return min(max(self._next_at, self._rests_until, now) - now, LONGEST_LOOK_SECONDS)

    def _look(self) -> None:
        """Queue what is new, and what is due again."""
        now, position = asyncio.get_running_loop().time(), self._outstanding.position
        if now < self._rests_until or (position == self._position and now < self._next_at):
            return
        self._position = position
        wanted = dict(self._outstanding.decisions())
        known = self._known
        for uid in [uid for uid, decision in known.items() if wanted.get(uid) != decision]:
            self._forget(uid)
        for uid in [uid for uid, at in self._uncertain_at.items() if at + LATE_SECONDS <= now]:
            del self._uncertain_at[uid]
        due = [uid for uid, at in self._again_at.items() if at <= now]
        for uid in (*(uid for uid in wanted if uid not in known), *due):
            placement = self._outstanding.placement(uid)
            if placement is None:
                self._forget(uid)
                continue
            self._again_at.pop(uid, None)
            known[uid], one = placement.decision, (uid, placement.decision)
            if one not in self._busy:
                self._busy.add(one)
                self._queue.put_nowait(placement)
        self._next_at = min(self._again_at.values(), default=float("inf"))

    def _leave(self, placement: Placement) -> None:
        """Nothing is done of a placement now: where it is outstanding again, as after a pause, it is queued again."""
        if self._known.get(placement.uid) == placement.decision:
            self._forget(placement.uid)

    def _forget(self, uid: str) -> None:
        self._known.pop(uid, None)
        self._again_at.pop(uid, None)
        self._against.pop(uid, None)
        self._data.pop(uid, None)
        self.failures.pop(uid, None)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            placement = await self._queue.get()
            while (rests := self._rests_until - loop.time()) > 0:
                await asyncio.sleep(rests)
            try:
                await self._begin(placement)
                self.failures.pop(placement.uid, None)
            except BursarError:
                # What it says its catcher shall do is not to go on, as where a lock is lost.
                raise
            except Exception as error:
                self._failed(placement, error)
            finally:
                self._busy.discard((placement.uid, placement.decision))

    async def _begin(self, placement: Placement) -> None:
        """Try to bind a pod, unless it is outstanding no more."""
        uid, known = placement.uid, self._known
        # Much may have happened while it was queued.
        current = self._outstanding.placement(uid)
        # Another policy may have given it to another profile.
        is_same = current is not None and current.decision == placement.decision
        placement = current if current is not None and is_same else placement
        binding = self._outstanding.binding(placement) if is_same else None
        if binding is None or known.setdefault(uid, placement.decision) != placement.decision:
            self._leave(placement)
            return
        plugins, observed = binding
        now, data = asyncio.get_running_loop().time(), self._data.setdefault(uid, {})
        await self._try(
            plugins, BindCycle(placement, observed, self._cluster, now, data, self._told)
        )

    async def _try(self, plugins: BindPlugins, cycle: BindCycle) -> None:
        """Bind a pod by the plugins of its profile, as far as it may be and can be now."""
        loop, placement = asyncio.get_running_loop(), cycle.placement
        why = self._outstanding.overtaken(placement) or self._refusal_of(placement)
        position = self._outstanding.position
        prepared = Prepared(why=why) if why else await plugins.pre_bind(cycle)
        if prepared == DONE and self._outstanding.position != position:
            # Much may have happened while plugins did their part.
            current = self._outstanding.placement(placement.uid)
            if current is None or current.decision != placement.decision:
                self._leave(placement)
                return
            if current != placement:
                # Of another profile by now: its plugins are asked.
                self._again(current, loop.time())
                return
            prepared = Prepared(why=self._outstanding.overtaken(placement))
        if not prepared.why and prepared != DONE:
            self._again(placement, cycle.now + prepared.delay_seconds)
            return
        found = None if prepared.why else await plugins.bind(cycle)
        if found is None:
            await self._end(plugins, cycle, prepared.why or NOBODY)
        elif found.outcome == "refused":
            self.counts["refused"] += 1
            if self._known.get(placement.uid) == placement.decision:
                self._against[placement.uid] = (placement.decision, found.message)
            self._again(placement, loop.time() + REFUSED_SECONDS)
        else:
            self._take(plugins, cycle, found, loop.time())

    def _failed(self, placement: Placement, error: Exception) -> None:
        """A plugin raised what none may: nobody knows what it did before, and the others go on."""
        uid, now = placement.uid, asyncio.get_running_loop().time()
        where = getattr(error, "__notes__", ["the binder"])[-1]
        words = f"{where} failed with {placement.namespace}/{placement.name}: {type(error).__name__}: {error}"
        if self.failures.get(uid) != words[:LONGEST]:
            _log.error("%s", words, exc_info=error)
        self._uncertain_at[uid] = now
        self._again(placement, now + DENIED_SECONDS)
        if uid in self._again_at:
            self.failures[uid] = words[:LONGEST]

    def _refusal_of(self, placement: Placement) -> str:
        refused, message = self._against.get(placement.uid, ("", ""))
        return message if refused == placement.decision else ""

    async def _end(self, plugins: BindPlugins, cycle: BindCycle, why: str) -> None:
        """Give a placement up that is not right any more, unless the pod has its node already."""
        now, placement = asyncio.get_running_loop().time(), cycle.placement
        certain_at = self._uncertain_at.get(placement.uid, -LATE_SECONDS) + LATE_SECONDS
        if certain_at > now:
            self._again(placement, certain_at)
            return
        found = await seen(self._cluster, placement, Outcomes("refused", why))
        self._take(plugins, cycle, found, now)

    def _take(self, plugins: BindPlugins, cycle: BindCycle, found: Outcomes, now: float) -> None:
        placement = cycle.placement
        self.counts[found.outcome] += 1
        if found.outcome == "bound":
            self.trouble = ""
            self._again(placement, now + CONFIRM_SECONDS)
            plugins.post_bind(cycle)
        elif found.outcome in ("later", "denied"):
            if not self.trouble:
                _log.warning("pods are not bound now: %s", found.message)
            self.trouble = found.message
            delay = DENIED_SECONDS if found.outcome == "denied" else found.delay_seconds
            self._rests_until = max(self._rests_until, now + delay)
            self._uncertain_at[placement.uid] = now
            self._again(placement, now + max(delay, AGAIN_SECONDS))
        else:
            self._refused.append((placement, found))

    def _again(self, placement: Placement, at: float) -> None:
        """Try a placement again then; nothing where it is known no more: the pod got another node, or is outstanding no more."""
        if self._known.get(placement.uid) != placement.decision:
            return
        self._again_at[placement.uid] = at
        self._next_at = min(self._next_at, at)

    async def _settle(self) -> None:
        if not self._says_now:
            return
        crashpoint("bind.before_settle")
        refused = self._refused[:MOST_REFUSALS]
        try:
            await self._say(refused)
        except RetryableError as error:
            _log.warning("why pods were not bound is published later: %s", error)
            now = asyncio.get_running_loop().time()
            self._say_at = now + max(error.delay_seconds, AGAIN_SECONDS)
            return
        del self._refused[: len(refused)]

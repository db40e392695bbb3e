"""ADAPTER: binds every outstanding placement, several at once, and reports the reason of each failed one.

Outstanding placements are folded from the history, so a process killed at any moment goes on with the same list: a pod bound
before is found on its node. A placement without a certain answer keeps its room and is tried again on the same node: a request
without an answer may still arrive. Room is released only after a read of the waiting pod, once every request possibly under way
has run out: even a refusal may cross a second process's success.

An overloaded API server, or one denying the right, is left alone for a while by all placements. An exception in a plugin keeps one
pod waiting: it is reported, and the pod is tried again later.

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

#: Placements in work: twice the connections, so every connection has work.
AT_ONCE = 16
#: Pauses between two checks of the outstanding placements: at least this, or twenty times the duration of a check if longer; while
#: placements are in work, as a refusal has no event of its own; and without newly read events.
LEAST_LOOK_SECONDS = 0.001
LOOK_RATIO = 20
LOOK_SECONDS = 0.02
LONGEST_LOOK_SECONDS = 1.0
#: Pauses before a placement without an answer is tried again; and before any is while the right is missing, or after a failure of
#: a plugin
AGAIN_SECONDS = 1.0
DENIED_SECONDS = 30.0
#: After this time a bound pod without an observation on its node is read again.
CONFIRM_SECONDS = 300.0
#: The time for an API server to complete a request: its deadline of a request, and a margin.
LATE_SECONDS = 75.0
#: Between a refusal and a last read of the pod: another process may be binding it at the same moment.
REFUSED_SECONDS = 20.0
#: The reason of a pod left unbound by every Bind plugin.
NOBODY = "no plugin of its profile binds this pod"
#: Most failed placements in one event.
MOST_REFUSALS = 200

_log = logging.getLogger(__name__)


class OutstandingPlacements(Protocol):
    """Decided placements, neither confirmed nor settled."""

    @property
    def position(self) -> int:
        """Changes after possible changes of the placements."""
        ...

    async def moved(self, seconds: float) -> None:
        """Return when the position moves, or after so long."""
        ...

    def decisions(self) -> Iterable[tuple[str, str]]:
        """Pod and decision of all of them, the oldest first; none while effects are not allowed."""
        ...

    def placement(self, uid: str) -> Placement | None:
        """The placement of one pod; None if it has none any more, or no effects are allowed."""
        ...

    def overtaken(self, placement: Placement) -> str:
        """The reason why it must not be done any more, as a token; "" = it may."""
        ...

    def binding(self, placement: Placement) -> tuple[BindPlugins, Known] | None:
        """The Bind plugins of its profile, and their input; None if there is no such placement any more."""
        ...


#: Publishes the reasons of failed placements. Raises RetryableError if publishing is impossible now.
Settle = Callable[[Sequence[tuple[Placement, Outcomes]]], Awaitable[None]]


class Binder:
    """The binder of outstanding placements. One in each acting process; two of them do no harm."""

    def __init__(
        self,
        cluster: BindClient,
        outstanding: OutstandingPlacements,
        settle: Settle,
        on_bound: Callable[[Placement], None],
    ) -> None:
        """``on_bound`` tells people about a bind, if a plugin asks for it."""
        #: The results of placements.
        self.counts: Counter[str] = Counter()
        #: The obstacle to all placements, in the API server's words; "" = none.
        self.trouble = ""
        #: By pod: the exception of its last attempt, with the plugin.
        self.failures: dict[str, str] = {}
        self._cluster = cluster
        self._outstanding = outstanding
        self._say = settle
        self._told = on_bound
        self._queue: asyncio.Queue[Placement] = asyncio.Queue()
        #: Pod to decision: queued, in work, or done and still outstanding.
        self._known: dict[str, str] = {}
        #: Pod and decision of placements queued or in work, also if no longer outstanding: each is queued once at a time.
        self._busy: set[tuple[str, str]] = set()
        #: The next attempt of a known one, and of any; seconds of the loop's clock.
        self._again_at: dict[str, float] = {}
        self._rests_until = 0.0
        #: The last request of a pod with an unknown answer, while it may still arrive.
        self._uncertain_at: dict[str, float] = {}
        #: Pod to the decision refused once, with the words: a read of the pod decides.
        self._against: dict[str, tuple[str, str]] = {}
        #: By pod and plugin: plugins' data between the attempts of one decision.
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
                # Frequent checks of thousands of placements would leave no time to bind them.
                rest = min(max(LOOK_RATIO * spent, LEAST_LOOK_SECONDS), LOOK_SECONDS)
                await asyncio.sleep(rest)
                if self._outstanding.position == self._position and not self._says_now:
                    await self._outstanding.moved(self._rest())

    @property
    def _says_now(self) -> bool:
        return bool(self._refused) and asyncio.get_running_loop().time() >= self._say_at

    def _rest(self) -> float:
        """The pause until the next check. Work in progress may be refused at any moment, without an event."""
        if len(self._again_at) < len(self._known):
            return LOOK_SECONDS
        now = asyncio.get_running_loop().time()
        return min(max(self._next_at, self._rests_until, now) - now, LONGEST_LOOK_SECONDS)

    def _look(self) -> None:
        """Queue the new placements, and the ones due again."""
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
        """Leave a placement for now: once outstanding again, for example after a pause, it is queued again."""
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
                # This error tells its catcher to stop, for example after the loss of a lock.
                raise
            except Exception as error:
                self._failed(placement, error)
            finally:
                self._busy.discard((placement.uid, placement.decision))

    async def _begin(self, placement: Placement) -> None:
        """Try to bind a pod, unless it is outstanding no more."""
        uid, known = placement.uid, self._known
        # Its state may have changed while it was queued.
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
        """Bind a pod by the plugins of its profile, as far as possible now."""
        loop, placement = asyncio.get_running_loop(), cycle.placement
        why = self._outstanding.overtaken(placement) or self._refusal_of(placement)
        position = self._outstanding.position
        prepared = Prepared(why=why) if why else await plugins.pre_bind(cycle)
        if prepared == DONE and self._outstanding.position != position:
            # Its state may have changed during the plugins' work.
            current = self._outstanding.placement(placement.uid)
            if current is None or current.decision != placement.decision:
                self._leave(placement)
                return
            if current != placement:
                # It belongs to another profile now: that profile's plugins are called.
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
        """Record a plugin's exception: its earlier effects are unknown, and the other placements go on."""
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
        """Give up an invalid placement, unless the pod has its node already."""
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
        """Try a placement again then; nothing if it is no longer known: the pod got another node, or is outstanding no more."""
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

"""ADAPTER: works the queues off: decides starts, writes them to the journals, and starts the workloads.

Level-triggered, as the keeper is: a held workload with a grant is started, whoever granted it and whenever. A held workload
without a grant waits. So it needs no memory of its own, and a crash anywhere loses and doubles nothing. Any process may run
it; one is enough. It decides after changes that may affect a queue, and every second, since budgets begin again
by time alone.

Source: :mod:`reactors.queue.decide` has the rules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import msgspec

from bus.clock import SECOND_US, Clock
from bus.crashpoints import crashpoint
from bus.errors import ClusterUnavailableError, RetryableError, WrongExpectationError
from bus.events.admissions import AdmissionDecided
from bus.kube import kinds
from bus.kube.kinds import GOVERNED
from projections.quota_trees import Tree, TreeOverlay
from reactors.admission.coverage.objects import Object
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.state.state import AdmissionState
from reactors.effectors.release import ReleaseOutcome, Starter
from reactors.engine.journals import Journals
from reactors.queue.plan import decided, planned
from reactors.queue.state import QueueState

#: Time between two decisions without changes, and the shortest time between two: many changes are handled together.
TICK_SECONDS = 1.0
APART_SECONDS = 0.05
#: The shortest rest after a decision, in multiples of its duration. Each decision walks over all waiting workloads, and
#: reviews wait meanwhile.
REST = 3
#: Starts under way at once.
CONCURRENT = 16
#: First wait after a start was refused; it doubles up to the longest.
WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0

_KINDS = {kind.kind: kind for kind in GOVERNED if kind.queues}

_log = logging.getLogger(__name__)

Write = Callable[[kinds.Kind, str, str, str], Awaitable[ReleaseOutcome]]
"""An attempt on one object: kind, namespace, name, uid."""


class StartAttempt(msgspec.Struct):
    """The last write of one workload, and when it may be tried again."""

    version: str
    not_before_us: int = 0
    wait_seconds: float = WAIT_SECONDS
    is_under_way: bool = True
    is_over: bool = False
    #: The reason why the last attempt wrote nothing; "" if it did write.
    message: str = ""


class Releasing:
    """Works off the queues of ``journals``, ``view`` and ``lines``, all with the same history."""

    def __init__(
        self,
        journals: Journals,
        view: AdmissionState,
        clock: Clock,
        starter: Starter,
        lines: QueueState,
    ) -> None:
        self.lines = lines
        #: Decided releases, done writes, and refused writes.
        self.released = self.written = self.refused = 0
        self._journals = journals
        self._view = view
        self._clock = clock
        self._starter = starter
        self._attempts: dict[str, StartAttempt] = {}
        self._places = asyncio.Semaphore(CONCURRENT)
        self._rest_seconds = 0.0

    async def run(self) -> None:
        """Work for ever, from the moment the history was read to its present end."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                mark = self._mark()
                try:
                    await self.work(tasks)
                except WrongExpectationError:
                    # Another process decided meanwhile; waiting workloads still wait.
                    continue
                except RetryableError as error:
                    _log.warning("nothing can be released now: %s", error)
                await asyncio.sleep(max(APART_SECONDS, self._rest_seconds))
                await self._changed(mark)

    def stuck(self) -> list[tuple[str, str, int]]:
        """Released workloads that could not be started yet: (NAMESPACE/NAME,
        reason, time of the next attempt, microseconds UTC)."""
        found = []
        for uid, attempt in self._attempts.items():
            known = self._view.objects.get(uid)
            if attempt.message and known is not None:
                name = f"{known.namespace}/{known.name}"
                found.append((name, attempt.message, attempt.not_before_us))
        return sorted(found)

    def _mark(self) -> int:
        return self.lines.changes + sum(tree.number for tree in self._journals.trees.values())

    async def _changed(self, mark: int) -> None:
        """Return when something changed, or after a tick."""
        try:
            async with asyncio.timeout(TICK_SECONDS):
                while self._mark() == mark:
                    await self._journals.moved()
        except TimeoutError:
            return

    async def work(self, tasks: asyncio.TaskGroup) -> None:
        """Release the workloads that may start, and begin to start them."""
        # All are decided at one place of the history, before anything can be read or appended.
        based_on, now_us = self._journals.sequence, self._clock.now_us()
        plan = planned(self.lines, self._tree)
        drafts, starting = [], 0
        for name, queues in sorted(plan.queues.items()):
            draft = TreeOverlay(self._journals.tree(name))
            starting += decided(draft, self.lines, queues, now_us, based_on, elsewhere=starting)
            drafts.append(draft)
        self._rest_seconds = REST * (self._clock.now_us() - now_us) / SECOND_US
        for draft in drafts:
            await self._append(draft)
        self._act(tasks, [*plan.ready, *self._released(drafts)])

    def _tree(self, where: QuotaRef) -> Tree | None:
        name = self._journals.places.get((where.kind, where.quota))
        return self._journals.tree(name) if name is not None else None

    def _released(self, drafts: list[TreeOverlay]) -> Iterator[Object]:
        """The newly released workloads of stored drafts, as last observed."""
        for draft in drafts:
            for fact, _ in draft.facts:
                found = self._view.objects.get(
                    fact.uid if isinstance(fact, AdmissionDecided) else ""
                )
                if found is not None and found.ask.held:
                    yield found

    def _act(self, tasks: asyncio.TaskGroup, ready: list[Object]) -> None:
        """Start granted held workloads, and stop running ones that must wait again."""
        returning = list(self.lines.returning())
        ready = [found for found in ready if not self.lines.is_returning(found.uid)]
        wanted = {found.uid for found in (*ready, *returning)}
        for uid in self._attempts.keys() - wanted:
            del self._attempts[uid]
        for found in ready:
            self._try(tasks, found, self._starter.start)
        for found in returning:
            where = self._view.place(found.labels, found.namespace)
            if where is not None:
                self._try(tasks, found, partial(self._starter.hold, quota=where.quota))

    async def _append(self, draft: TreeOverlay) -> None:
        if not draft.facts:
            return
        tree, known = draft.tree, draft.known
        ids = [f"queue/{tree.name}/{fact.number}" for fact, _ in draft.facts]
        crashpoint("queue.before_release")
        try:
            await self._journals.append(draft, ids)
        except WrongExpectationError as refused:
            await self._journals.newer(tree, known, refused)
            raise
        crashpoint("queue.after_release")
        # The next look sees it: released workloads count as starting, and a stop is not repeated.
        await self._journals.reached(tree.sequence)
        decisions = [fact for fact, _ in draft.facts if isinstance(fact, AdmissionDecided)]
        self.released += len(decisions)

    def _try(self, tasks: asyncio.TaskGroup, found: Object, write: Write) -> None:
        """Write, unless a write is in progress, was done for the observed version, or has to wait."""
        attempt = self._attempts.get(found.uid)
        if attempt is None:
            attempt = self._attempts[found.uid] = StartAttempt(found.version)
        elif attempt.is_under_way or self._clock.now_us() < attempt.not_before_us:
            return
        elif attempt.is_over and attempt.version == found.version:
            return
        attempt.version, attempt.is_under_way, attempt.is_over = found.version, True, False
        tasks.create_task(self._attempt(found, attempt, write))

    async def _attempt(self, found: Object, attempt: StartAttempt, write: Write) -> None:
        async with self._places:
            try:
                outcome = await write(_KINDS[found.kind], found.namespace, found.name, found.uid)
            except ClusterUnavailableError as error:
                _log.warning("%s %s cannot be written now: %s", found.kind, found.name, error)
                attempt.message = str(error)
                self._wait(attempt, error.delay_seconds)
                return
            finally:
                attempt.is_under_way = False
        if outcome.result == "refused":
            self.refused += 1
            attempt.message = outcome.message
            _log.warning("%s %s is not written: %s", found.kind, found.name, outcome.message)
            self._wait(attempt, attempt.wait_seconds)
            attempt.wait_seconds = min(2 * attempt.wait_seconds, LONGEST_WAIT_SECONDS)
            return
        attempt.is_over, attempt.message = True, ""
        self.written += outcome.result == "done"

    def _wait(self, attempt: StartAttempt, seconds: float) -> None:
        attempt.not_before_us = self._clock.now_us() + int(seconds * SECOND_US)

"""ADAPTER: waiting reviews, decided in order of arrival and appended together.

A tree has one append in progress at a time, as the next one depends on it. Reviews that arrive meanwhile are
decided in one draft and appended as one event, so all of them share one flush to disk.
An answer is given when it is stored, never before.

Source: docs/architecture.md; tests/benchmarks/README.md (grouped appends).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from bus.clock import Clock
from bus.errors import WrongExpectationError
from bus.events.admissions import MAX_BATCH, AdmissionDecided, QuotaDeclared
from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.storable import storable
from reactors.engine.journals import Journals

Answer = AdmissionDecided | QuotaDeclared
A = TypeVar("A", AdmissionDecided, QuotaDeclared)
#: Bytes of one decision; a message of the stream carries 64 KiB. Decisions of few amounts are not measured.
LARGEST, FEW = 60 * 1024, 100
#: A decision to make on a draft at a time.
Question = Callable[[TreeOverlay, int], Answer]


class _Waiting:
    __slots__ = ("answer", "question", "request")

    def __init__(self, question: Question, request: str, answer: asyncio.Future[Any]) -> None:
        self.question, self.request, self.answer = question, request, answer


class DecisionBatcher:
    """One tree's queue. :meth:`ask` may be called by any number of tasks."""

    def __init__(self, journals: Journals, clock: Clock, tree: str) -> None:
        self._journals = journals
        self._clock = clock
        self._tree = tree
        self._queue: deque[_Waiting] = deque()
        self._working: asyncio.Task[None] | None = None

    async def ask(self, question: Callable[[TreeOverlay, int], A], request: str) -> A:
        """The decision, once it is stored. Raises the bus's errors; then nothing may be assumed."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(question, request, answer))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        try:
            while self._queue:
                await self._journals.turn(self._tree)
                batch: list[_Waiting] = []
                while self._queue and len(batch) < MAX_BATCH:
                    waiting = self._queue.popleft()
                    if not waiting.answer.done():
                        batch.append(waiting)
                try:
                    await self._settle(batch)
                except Exception as error:
                    # All waiting reviews get the error; the server above answers as it does without us.
                    for waiting in batch:
                        if not waiting.answer.done():
                            waiting.answer.set_exception(error)
        finally:
            self._working = None

    async def _settle(self, batch: list[_Waiting]) -> None:
        while batch:
            tree = self._journals.tree(self._tree)
            draft, now_us = TreeOverlay(tree), self._clock.now_us()
            answers = list[tuple[_Waiting, Answer]]()
            for waiting in batch:
                try:
                    answer = storable(waiting.question(draft, now_us))
                except Exception as error:
                    # An error of one question is its own answer; those beside it are decided.
                    waiting.answer.set_exception(error)
                    continue
                draft.add(answer, now_us)
                answers.append((waiting, answer))
            if not answers:
                return
            ids = [f"admission/{one.request}/{answer.number}" for one, answer in answers]
            try:
                await self._journals.append(draft, ids)
            except WrongExpectationError as refused:
                await self._journals.newer(tree, draft.known, refused)
                await self._journals.turn(self._tree)
                batch = [waiting for waiting in batch if not waiting.answer.done()]
                continue
            for waiting, answer in answers:
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)
            return

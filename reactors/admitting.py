"""The admission side of one process: journals, view, handler and withdrawals; in the keeper's process, reconciler and queues.

Every replica answers; one keeps (``bursar up``). A replica is ready when it has read the history up to its end
at the start. The wrappers of the handler are here, too: shadow mode, proofs, and answers at the deadline.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from bus.clock import Clock
from bus.errors import BusUnavailableError
from bus.kube.kinds import GOVERNED
from bus.transport import Transport
from bus.waiting import beside
from projections.engine.collecting import seldom_collecting
from projections.engine.store import Store
from reactors.admission.coverage.owners import Controllers
from reactors.admission.deciding.messages import ALLOWED
from reactors.admission.deciding.rate import Rate
from reactors.admission.deciding.withdrawing import Withdrawals
from reactors.admission.metrics import DecisionCounts
from reactors.admission.reconciling.reconciler import Reconciler
from reactors.admission.reviewing.governing import is_governed
from reactors.admission.reviewing.handler import Handler
from reactors.admission.reviewing.outlines import Outlines
from reactors.admission.reviewing.questions import CLAIMS, TEMPLATES
from reactors.admission.reviewing.released import is_released
from reactors.admission.state.state import AdmissionState
from reactors.admission.state.unsettled import Rests
from reactors.effectors.release import Patches, Starter
from reactors.engine.journals import Journals
from reactors.engine.snapshots import Snapshots, last_archived, restored
from reactors.queue.releasing import Releasing
from reactors.queue.state import QueueState
from reactors.readers import Readers
from reactors.webhook import proof
from reactors.webhook.failure import Failure, Unread, closed_for
from reactors.webhook.outline import Outline
from reactors.webhook.review import Answer, Review

if TYPE_CHECKING:
    from projections.engine.heads import Signer

#: Between two searches for kinds to list.
DUE_SECONDS = 5.0


class Admission(msgspec.Struct, frozen=True):
    """The admission side of one process."""

    journals: Journals
    view: AdmissionState
    handler: Handler
    keeper: Reconciler | None
    decisions: DecisionCounts
    withdrawals: Withdrawals
    lines: QueueState
    releasing: Releasing | None = None


@asynccontextmanager
async def following(
    transport: Transport,
    clock: Clock,
    *,
    cluster: str,
    source: str,
    keeps: bool,
    relist: Callable[[str], None] = lambda kind: None,
    starts: Patches | None = None,
    controllers: Controllers | None = None,
    requires_namespaces: bool = False,
    ledger: Store | None = None,
    signer: Signer | None = None,
    writes: bool = True,
) -> AsyncIterator[Admission]:
    """Follow the journals, and keep them true if this process ``keeps``. Entered when the history was read to its end.

    ``ledger`` holds snapshots; the newest one sealed by that ``signer`` is loaded first. None: the whole history is read.
    ``writes`` off: another process writes the ledger, so this one writes no snapshot, and reads the bus after a snapshot.
    ``relist(kind)`` requests a complete list of a kind. The keeper works
    off the queues, too, if it can start workloads by ``starts``.
    """
    make = partial(
        Readers, transport, clock, cluster=cluster, source=source, requires_namespaces=requires_namespaces,
    )  # fmt: skip
    until = 0 if ledger is None else await asyncio.to_thread(last_archived, ledger.select)
    if ledger is None:
        readers = make()
    else:
        keys = (signer.public_key,) if signer is not None else ()
        readers = await asyncio.to_thread(restored, ledger.select, make, until, keys)
    journals, view, lines = readers.journals, readers.view, readers.lines
    keeper = Reconciler(journals, view, clock, readers.raises) if keeps else None
    if not keeps:
        journals.listen(lambda event: view.unmark())
    releasing = None
    if keeps and starts is not None:
        releasing = Releasing(journals, view, clock, Starter(starts), lines)
    withdrawals = Withdrawals(journals, clock)
    handler = Handler(journals, view, clock, Rate(), withdrawals, controllers, lines.ahead)
    admission = Admission(
        journals, view, handler, keeper, readers.decisions, withdrawals, lines, releasing
    )
    head = await transport.head()
    async with AsyncExitStack() as stack:
        # Grants make no cycles, and looking for some delays reviews.
        stack.enter_context(seldom_collecting())
        if ledger is None or not writes:
            following = journals.follow()
        else:
            await asyncio.to_thread(readers.read, ledger.select, until)
            snapshots = Snapshots(ledger, readers, signer)
            stack.push_async_exit(snapshots.end)
            following = journals.follow(snapshots.offer)
        await stack.enter_async_context(beside(following))
        await journals.reached(head.last_sequence)
        await stack.enter_async_context(beside(withdrawals.run()))
        if keeper is not None:
            await stack.enter_async_context(beside(keeper.run()))
            await stack.enter_async_context(beside(_relisting(keeper, clock, relist)))
        if releasing is not None:
            await stack.enter_async_context(beside(releasing.run()))
        yield admission


async def _relisting(keeper: Reconciler, clock: Clock, relist: Callable[[str], None]) -> None:
    rests, looked_us = Rests(), 0
    while True:
        await asyncio.sleep(DUE_SECONDS)
        now_us = clock.now_us()
        for kind in rests.over(keeper.due(now_us), keeper.due(now_us, looked_us), now_us):
            relist(kind)
        looked_us = now_us


def _is_behind(error: Exception | None) -> bool:
    """Whether a review failed as its process lags: it was late, or the bus was away."""
    return error is None or isinstance(error, BusUnavailableError)


def failing(admission: Admission, *, is_shadow: bool = False) -> Failure:
    """The answer without a decision in time. A refused request's decision is withdrawn if it is stored later.

    Ungoverned objects pass, as there was nothing to decide. So does the start of a released workload, since it is decided.
    """
    closed = closed_for({CLAIMS, TEMPLATES, *((kind.group, kind.resource) for kind in GOVERNED)})

    def failure(review: Review, error: Exception | None) -> Answer:
        answer = closed(review, error)
        if not answer.allowed and not is_governed(
            admission.view, review, is_late=_is_behind(error)
        ):
            answer = ALLOWED
        if not answer.allowed and is_released(admission.journals, admission.view, review):
            answer = Answer(True, "released")
        if answer.allowed or is_shadow:
            admission.withdrawals.answered(review.uid)
        else:
            admission.withdrawals.refused(review.uid)
        return answer if answer.allowed or not is_shadow else as_warning(answer)

    return failure


def outlining(admission: Admission, *, is_shadow: bool = False) -> Unread:
    """The answer to a review that cannot be read exactly."""
    outlines = Outlines(admission.view, admission.journals)

    def answer(outline: Outline, reason: str | None) -> Answer:
        found = outlines(outline, reason)
        return found if found.allowed or not is_shadow else as_warning(found)

    return answer


def as_warning(answer: Answer) -> Answer:
    """A refusal turned into a warning."""
    warning = f"Bursar would refuse this: {answer.message}"
    return Answer(True, answer.reason, warnings=(warning, *answer.warnings))


def proving(
    handler: Callable[[Review], Awaitable[Answer]],
) -> Callable[[Review], Awaitable[Answer]]:
    """``handler``, beside the answer to reviews that only prove their way."""

    async def answer(review: Review) -> Answer:
        return proof.answer(review) or await handler(review)

    return answer


def shadowed(handler: Handler) -> Callable[[Review], Any]:
    """``handler``, with warnings in place of refusals."""

    async def answer(review: Review) -> Answer:
        answered = await handler(review)
        return answered if answered.allowed else as_warning(answered)

    return answer

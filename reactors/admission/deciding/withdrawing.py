"""ADAPTER: releases the charge of a decision whose requester never received it.

While the bus is paused a decision may be sent, get no answer in time, and be stored later. Its requester got the answer
``bursar-unavailable``: the request was refused, so no object follows. Only the refusing process has this knowledge. When it
reads such a decision in the history, it appends a release with the reason ``unanswered``: the object holds its earlier amounts
again. If that process ended meanwhile, the charge lapses like that of any object that never appears
(:mod:`reactors.admission.deciding.reconcile`). An object that exists all the same is charged again when it is observed.

Source: ``docs/admission.md``, "When a part is away".
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

import msgspec

from bus.clock import Clock
from bus.envelope import Event
from bus.errors import RetryableError, WrongExpectationError
from bus.events.admissions import AdmissionDecided, AdmissionReleased, ChargeEvidence, Release
from projections.quota_trees import Grant, TreeOverlay
from reactors.admission.deciding.decide import UNANSWERED
from reactors.engine.journals import Journals

#: Most remembered requests without an answer; evidence ends the charges of the oldest.
MOST = 10_000
#: Between two attempts while the bus is away.
RETRY_SECONDS = 1.0


_log = logging.getLogger(__name__)


class _Asked(msgspec.Struct):
    """A request in progress, or refused without a decision."""

    #: The quota's earlier charge for its object.
    before: dict[str, int]
    #: Tree, and decision, once it was read in the history.
    stored: tuple[str, AdmissionDecided] | None = None


class Withdrawals:
    """The withdrawals of one answering process. Requests are named by the uid of their review."""

    def __init__(self, journals: Journals, clock: Clock) -> None:
        self._journals = journals
        self._clock = clock
        self._open: dict[str, _Asked] = {}
        self._refused: dict[str, _Asked] = {}
        self._due: deque[_Asked] = deque()
        self._woken = asyncio.Event()
        journals.listen(self.apply)

    def __len__(self) -> int:
        """The number of requests refused without a decision and not read since."""
        return len(self._refused)

    def asked(self, request: str, before: Grant | None) -> None:
        """A request is decided now; its object holds ``before``."""
        self._open[request] = _Asked(before.charge if before is not None else {})
        _bound(self._open)

    def answered(self, request: str) -> None:
        """The requester gets the decision, or was admitted without one: its charge stays."""
        self._open.pop(request, None)

    def refused(self, request: str) -> None:
        """The requester was refused before it got a decision: its charge is to be withdrawn."""
        asked = self._open.pop(request, None)
        if asked is None:
            return
        if asked.stored is not None:
            self._take_back_soon(asked)
        else:
            self._refused[request] = asked
            _bound(self._refused)

    def apply(self, event: Event) -> None:
        """See one event of the history."""
        if event.type != AdmissionDecided.wire_type:
            return
        # Ids of requested decisions end with the review's uid and the number.
        request = event.id.rsplit("/", 2)[-2:][0]
        asked = self._open.get(request) or self._refused.get(request)
        if asked is None:
            return
        asked.stored = (event.key, AdmissionDecided.read(event))
        if self._refused.pop(request, None) is not None:
            self._take_back_soon(asked)

    def _take_back_soon(self, asked: _Asked) -> None:
        if asked.stored is not None and asked.stored[1].verdict != "refused":
            self._due.append(asked)
            self._woken.set()

    async def run(self) -> None:
        """Take back for ever."""
        while True:
            await self._woken.wait()
            while self._due:
                try:
                    await self._take_back(self._due[0])
                except RetryableError as error:
                    _log.warning("what nobody heard of is not taken back yet: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                self._due.popleft()
            self._woken.clear()

    async def _take_back(self, asked: _Asked) -> None:
        assert asked.stored is not None
        name, fact = asked.stored
        tree = self._journals.tree(name)
        while True:
            draft = TreeOverlay(tree)
            release = Release(fact.quota, fact.uid, UNANSWERED, request=fact.request)
            read = self._journals.sequence
            evidence = ChargeEvidence(read, number=fact.number, before=asked.before)
            draft.add(taken_back(draft, release, evidence), self._clock.now_us())
            try:
                return await self._journals.append(
                    draft, [f"{UNANSWERED}/{fact.request}/{draft.known}"]
                )
            except WrongExpectationError as refused:
                await self._journals.newer(tree, draft.known, refused)


def taken_back(draft: TreeOverlay, release: Release, evidence: ChargeEvidence) -> AdmissionReleased:
    """The entry that withdraws a decision: the object's amounts from now on. Pure.

    ``release`` names the object and the review, ``evidence`` the decision and the earlier charge.
    """
    charge = _charge(draft.grant(release.quota, release.uid), evidence.number, evidence.before)
    release = msgspec.structs.replace(release, charge=charge)
    return AdmissionReleased(
        number=draft.number, releases=(release,), based_on=draft.tree.sequence, evidence=evidence
    )


def _charge(now: Grant | None, number: int, before: dict[str, int]) -> dict[str, int]:
    """A later request of the same object decides for itself."""
    if now is None:
        return {}
    if now.number != number:
        return now.charge
    return {key: min(n, before[key]) for key, n in now.charge.items() if before.get(key)}


def _bound(found: dict[str, _Asked]) -> None:
    if len(found) > MOST:
        del found[next(iter(found))]

"""ADAPTER: reports used-up budgets: an Event on the quota's object, and the address of the operator, if there is one.

A judgement is news when its phase is ``Warned``, ``Exhausted`` or ``GraceOver``. The outcome of a report is a fact of the
history, so after a restart a settled report is not repeated. A report right before a crash may be repeated,
with the same id. Nothing waits for it: refusals and evictions for a spent budget are decided elsewhere.

``record`` and ``body_of`` are pure. Source: ``docs/admission.md``; Kubernetes API reference, events.k8s.io/v1.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bus.clock import SECOND_US, Clock, format_stamp
from bus.envelope import Event
from bus.errors import (
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
    RetryableError,
    WrongExpectationError,
)
from bus.events.budgets import BudgetJudged
from bus.events.decisions import NoticeSettled
from bus.kube.crds.keys import CASH, key_text
from bus.kube.crds.quotas import API_VERSION, KIND
from bus.notify import Delivery
from bus.transport import Expectation, Transport
from projections.quota_trees.shape import BUSINESS
from reactors.budgets import NAME
from reactors.budgets.state import FRESH_US, BudgetState
from reactors.effectors.events import LONGEST_NOTE, micro_time
from reactors.engine.adapters import Cluster, QuotaTrees

Json = dict[str, Any]

CONTROLLER = "bursar.io/budgets"
#: Events about objects of the cluster stand in this namespace.
EVENTS_PATH = "/apis/events.k8s.io/v1/namespaces/default/events"
#: Between two rounds.
ROUND_SECONDS = 2.0

_REASONS = {
    "Warned": "BudgetWarned", "Exhausted": "BudgetExhausted", "GraceOver": "BudgetGraceOver",
}  # fmt: skip

_log = logging.getLogger(__name__)

Tell = Callable[[Mapping[str, Any]], Awaitable[Delivery]]


def sentence(fact: BudgetJudged) -> str:
    """The judgement as a sentence."""
    key = CASH + fact.key
    spent, limit = key_text(key, fact.spent), key_text(key, fact.limit)
    text = f"{spent} of {limit} hours of {fact.key} are spent"
    if fact.phase == "Warned":
        return text
    if fact.exhausted_s is not None:
        text += f", the last at {format_stamp(fact.exhausted_s * SECOND_US)}"
    follows = {
        "Warn": "workloads are admitted with a warning",
        "DenyNew": "what asks for more is refused, what runs goes on",
        "GraceThenEvict": "what asks for more is refused, and what runs is evicted after a grace",
    }
    if fact.phase == "GraceOver":
        return f"{text}; the grace is over: what runs is evicted"
    return f"{text}; {follows.get(fact.rule, fact.rule)}"


def body_of(event: Event, fact: BudgetJudged) -> Json:
    """The body of a report to an address, as JSON values; stamps RFC 3339 UTC in whole seconds, hours as text."""
    key = CASH + fact.key
    return {
        "decision": event.id,
        "quota": fact.quota,
        "key": fact.key,
        "phase": fact.phase,
        "spent_hours": key_text(key, fact.spent),
        "limit_hours": key_text(key, fact.limit),
        "exhausted_at": _stamp(fact.exhausted_s),
        "period_ends": _stamp(fact.period_end_s),
        "message": f"quota {fact.quota}: {sentence(fact)}",
    }


def record(event: Event, fact: BudgetJudged, uid: str, instance: str) -> Json:
    """The Event on the quota's object; its name is that of the judgement, so it is made once."""
    digest = hashlib.blake2b(event.id.encode(), digest_size=8).hexdigest()
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"bursar.budget.{digest}", "namespace": "default"},
        "eventTime": micro_time(event.time_us),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128] or "bursar",
        "action": "Judge",
        "reason": _REASONS[fact.phase],
        "regarding": {"apiVersion": API_VERSION, "kind": KIND, "name": fact.quota, "uid": uid},
        "note": sentence(fact).encode()[:LONGEST_NOTE].decode(errors="ignore"),
        "type": "Warning",
    }


class BudgetNotices:
    """The notices of a cluster, in the keeper's process. ``tell`` None: there is no address."""

    def __init__(
        self,
        cluster: Cluster,
        transport: Transport,
        clock: Clock,
        state: BudgetState,
        *,
        name: str,
        instance: str,
        tell: Tell | None = None,
    ) -> None:
        """``name`` is the cluster's in the history."""
        self._cluster = cluster
        self._transport = transport
        self._clock = clock
        self._name = name
        self._instance = instance
        self._tell = tell
        self._state = state
        #: Settled here, and perhaps not read back yet.
        self._settled: set[str] = set()

    async def round(self, uids: Mapping[str, str]) -> None:
        """Report every new judgement. ``uids`` are those of the quotas, by name.

        Raises RetryableError if a report is impossible now.
        """
        now_us = self._clock.now_us()
        self._settled &= self._state.untold.keys()
        for id, (event, fact) in list(self._state.untold.items()):
            if id in self._settled:
                continue
            if event.time_us >= now_us - FRESH_US and fact.quota in uids:
                await self._write(record(event, fact, uids[fact.quota], self._instance))
                reported = Delivery("", 0)
                if self._tell is not None:
                    reported = await self._tell(body_of(event, fact))
                if reported.fault:
                    _log.warning("nobody could be told of %s: %s", id, reported.fault)
                await self._settle(id, reported)
            self._settled.add(id)

    async def _write(self, body: Json) -> None:
        try:
            await self._cluster.create(EVENTS_PATH, body)
        except (ConflictError, NotFoundError):
            # It was written before a crash, or this API server keeps no such Events.
            pass
        except (PermissionDeniedError, RequestRefusedError) as error:
            _log.warning("no Event tells of quota %s: %s", body["regarding"]["name"], error)

    async def _settle(self, id: str, reported: Delivery) -> None:
        fact = NoticeSettled(
            decision=id, reactor=NAME, result="failed" if reported.fault else "told",
            message=reported.fault, attempts=reported.attempts,
        )  # fmt: skip
        event = fact.event(
            cluster=self._name, key=id, id=f"{id}/notice", source=f"effector/{NAME}",
            time_us=self._clock.now_us(),
        )  # fmt: skip
        try:
            await self._transport.publish([event], expect=Expectation(event.subject, 0))
        except WrongExpectationError:
            _log.info("who was told of %s was recorded by another process", id)


async def telling(notices: BudgetNotices, trees: QuotaTrees) -> None:
    """Round after round, for ever. A slow receiver delays only this task."""
    while True:
        quotas = trees.quotas.items()
        uids = {name: seen.uid for (kind, name), seen in quotas if kind == BUSINESS and seen.spec}
        try:
            await notices.round(uids)
        except RetryableError as error:
            _log.warning("who is to be told of budgets waits: %s", error)
        await asyncio.sleep(ROUND_SECONDS)


def _stamp(second: int | None) -> str | None:
    return None if second is None else format_stamp(second * SECOND_US)

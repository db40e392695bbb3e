"""ADAPTER: reports each active warning to an address of the operator. Beside the warning, never before or instead of it.

A warning counts from its first moment on the object, with or without a report. Neither it nor the
stop waits for a call: a separate task makes the calls. The outcome of each is a fact of the history, so after a
restart a settled report is not repeated. A report right before a crash may be repeated, with the same decision's id.

``body_of`` is pure. Source: docs/culling.md (warning before the cull).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bus.clock import SECOND_US, Clock, format_stamp
from bus.errors import WrongExpectationError
from bus.events.decisions import Decision, NoticeSettled
from bus.kube.crds.culling import CULLS_AT, SNOOZED_UNTIL
from bus.notify import Delivery
from bus.transport import Expectation, Transport
from reactors.culling.effectors.patches import sentence, warning
from reactors.culling.state import NAME, CullingState
from reactors.effectors.rounds import all_of, every, in_force
from reactors.engine.replica import Replica

ROUND_SECONDS = 2.0
AT_ONCE = 16

_log = logging.getLogger(__name__)

Tell = Callable[[Mapping[str, Any]], Awaitable[Delivery]]


def body_of(decision: Decision) -> dict[str, Any]:
    """The body of a report about a warning, as JSON values; stamps RFC 3339 UTC in whole seconds."""
    target = decision.target
    since_us = decision.numbers["last_activity_us"] // SECOND_US * SECOND_US
    return {
        "decision": decision.id,
        "kind": target.kind,
        "namespace": target.namespace,
        "name": target.name,
        "culls_at": warning(decision)[CULLS_AT],
        "reason": decision.reason,
        "message": sentence(decision),
        "last_activity": format_stamp(since_us),
        "snooze": f"kubectl annotate --overwrite -n {target.namespace} {target.kind.lower()} {target.name} "
        f"{SNOOZED_UNTIL}=<RFC 3339 time>",
    }


class Notices:
    """Reports the warnings of ``replica``, by ``tell``: :func:`bus.notify.tell` with its receiver."""

    def __init__(self, replica: Replica, transport: Transport, clock: Clock, tell: Tell) -> None:
        self._replica = replica
        self._transport = transport
        self._clock = clock
        self._tell = tell
        #: Told or failed, and not read back from the history yet, by decision.
        self._made: dict[str, Delivery] = {}
        self._recorded: set[str] = set()

    async def run(self) -> None:
        """Round after round, for ever."""
        await every(ROUND_SECONDS, self.round, "what became of notices")

    async def round(self) -> None:
        """Report every new warning. Raises RetryableError if the outcome cannot be published."""
        waiting = self._unreported()
        ids = {decision.id for decision in waiting}
        self._made = {id: reported for id, reported in self._made.items() if id in ids}
        self._recorded &= ids
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(decision: Decision) -> None:
            async with slots:
                if decision.id not in self._made:
                    # The calls before it may have taken long.
                    if not self._is_unreported(decision):
                        return
                    self._made[decision.id] = await self._tell(body_of(decision))
                await self._settle(decision, self._made[decision.id])

        await all_of(one(d) for d in waiting if d.id not in self._recorded)

    def _unreported(self) -> list[Decision]:
        """Active warnings without a report; none while effects are held."""
        warned = (standing.decision for standing in self._view.warned.values())
        return [decision for decision in warned if self._is_unreported(decision)]

    def _is_unreported(self, decision: Decision) -> bool:
        if in_force(self._replica, NAME, self._clock.now_us()) is None or decision.is_shadow:
            return False
        standing = self._view.warned.get(decision.key)
        return standing is not None and standing.decision == decision and not standing.is_told

    @property
    def _view(self) -> CullingState:
        view = self._replica.states[NAME]
        assert isinstance(view, CullingState)
        return view

    async def _settle(self, decision: Decision, reported: Delivery) -> None:
        if reported.fault:
            _log.warning("nobody could be told of %s: %s", decision.id, reported.fault)
        fact = NoticeSettled(
            decision=decision.id,
            reactor=decision.reactor,
            result="failed" if reported.fault else "told",
            message=reported.fault,
            attempts=reported.attempts,
        )
        event = fact.event(
            cluster=self._replica.cluster,
            key=decision.id,
            id=f"{decision.id}/notice",
            source=f"effector/{decision.reactor}",
            time_us=self._clock.now_us(),
        )
        try:
            await self._transport.publish([event], expect=Expectation(event.subject, 0))
        except WrongExpectationError:
            _log.info("who was told of %s was recorded by another process", decision.id)
        self._recorded.add(decision.id)

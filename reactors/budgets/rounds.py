"""ADAPTER: the round over the ledger: budgets into the journals, judgements into the history, status into the cluster.

Source: ``docs/admission.md``; :mod:`reactors.budgets.decide` has the rules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

import msgspec
import sqlalchemy as sa

from bus.clock import Clock, floor_seconds
from bus.envelope import Event
from bus.errors import (
    ClusterUnavailableError,
    PermissionDeniedError,
    RetryableError,
    WrongExpectationError,
)
from bus.events.budgets import BudgetJudged
from bus.transport import Expectation, Transport
from projections import quotas
from projections.budgets import BudgetStatus, Schedule
from projections.budgets.queries import forecast
from projections.catalogue import MODEL
from projections.engine.store import Store
from projections.engine.tables import checkpoints
from projections.quota_trees import Tree, TreeNode
from projections.quota_trees.shape import BUSINESS
from reactors.budgets import NAME
from reactors.budgets.decide import evaluated, metered
from reactors.budgets.forecasting import Forecasts
from reactors.budgets.state import BudgetState, Evaluated, LedgerRead
from reactors.budgets.status import status_of
from reactors.effectors.elastic_status import ElasticStatus
from reactors.effectors.quota_status import BizGroupStatus, Condition, StatusReport, StatusWriter
from reactors.engine.adapters import QuotaTrees
from reactors.engine.replica import Replica

#: Between two rounds.
ROUND_SECONDS = 10.0
#: Between two checks for a new quota, and the number of early rounds for one that the ledger does not have yet.
SOON_SECONDS = 0.5
SOON_ROUNDS = 10

#: The parts of the ledger that a round reads.
_READ = frozenset({"quotas", "budget_entries", "budget_spends", "evidence"})

_log = logging.getLogger(__name__)


class Metering:
    """The rounds of a cluster, in the keeper's process. ``writer`` None: no status is written."""

    def __init__(
        self,
        replica: Replica,
        trees: QuotaTrees,
        store: Store,
        transport: Transport,
        clock: Clock,
        *,
        writer: StatusWriter | None,
        writes_elastic: bool = True,
    ) -> None:
        self._replica = replica
        self._trees = trees
        self._store = store
        self._transport = transport
        self._clock = clock
        self._cluster = replica.cluster
        self._writer = writer
        self._writes_elastic = writes_elastic
        self._since: dict[tuple[str, str], Condition] = {}
        #: By uid of a quota: how many rounds came early for it, as many as it needs or is given.
        self._looks: dict[str, int] = {}
        #: The parts that the last round waited for.
        self._waits: list[str] = []
        self._forecasts = Forecasts(lambda query: self._store.select(query), replica.cluster)

    async def run(self) -> None:
        """Round after round, for ever."""
        while True:
            try:
                await self.round()
            except RetryableError as error:
                _log.warning("budgets and status wait: %s", error)
            await self._rest()

    async def _rest(self) -> None:
        """Return after a round's time; earlier where a quota is new, until the ledger has it and its status is written."""
        for _ in range(int(ROUND_SECONDS / SOON_SECONDS)):
            await asyncio.sleep(SOON_SECONDS)
            there = {
                node.uid
                for tree in self._trees.trees.values()
                for node in tree.nodes.values()
                if node.kind == BUSINESS and node.observed is not None
            }
            self._looks = {uid: n for uid, n in self._looks.items() if uid in there}
            new = [uid for uid in there if self._looks.get(uid, 0) < SOON_ROUNDS]
            if new and self._writer is not None:
                self._looks |= {uid: self._looks.get(uid, 0) + 1 for uid in new}
                return

    async def round(self) -> None:
        """Bring everything up to now, once. While rows behind budgets are filled again, it waits: the older rows
        lack the newest events.
        """
        waits = await asyncio.to_thread(self._filled_parts)
        if waits and waits != self._waits:
            _log.warning("budgets wait until %s are filled (bursar status)", ", ".join(waits))
        self._waits = waits
        if waits:
            return
        read = await asyncio.to_thread(self._read, floor_seconds(self._clock.now_us()))
        await self._meter(read)
        judged = await self._judge(read)
        await asyncio.to_thread(self._forecasts.advance, read)
        self._state.forecasts = self._forecasts.of
        if self._writer is not None:
            await self._write(self._writer, read, judged)

    @property
    def _state(self) -> BudgetState:
        state = self._replica.states[NAME]
        assert isinstance(state, BudgetState)
        return state

    def _filled_parts(self) -> list[str]:
        """The parts that a round reads and that are in filling."""
        missing = MODEL.missing(self._store.checkpoint(MODEL.version).version)
        return [part.name for part in missing.parts if part.name in _READ]

    def _read(self, at_s: int) -> LedgerRead:
        select = self._store.select
        table = quotas.quotas
        query = sa.select(table).where(
            table.c.cluster == self._cluster, table.c.vanished == 0, table.c.kind == BUSINESS
        )
        found = {row.name: row for row in map(quotas.codec.row, select(query))}
        sequence = max((row[0] for row in select(sa.select(checkpoints.c.sequence))), default=0)
        standings = {}
        for name, quota in found.items():
            if quota.observed is None or not quota.observed.cash:
                continue
            period = Schedule.of(quota.observed.budget).period_at(at_s)
            for key, hard in quota.observed.cash.items():
                standings[(name, key)] = forecast(
                    select, self._cluster, name, key, period=period, hard=hard, as_of_s=at_s
                )
        return LedgerRead(at_s, sequence, found, standings)

    async def _meter(self, read: LedgerRead) -> None:
        for tree in list(self._trees.trees.values()):
            mine = {place: one for place, one in read.standings.items() if place[0] in tree.nodes}
            if mine:
                await self._trees.say(tree, partial(metered, standings=mine, at_s=read.at_s))

    async def _judge(self, read: LedgerRead) -> Evaluated:
        state = self._state
        facts = self._replica.review(NAME, read, self._clock.now_us())
        judged = evaluated(state, read)
        events = [self._event(fact) for fact in facts if isinstance(fact, BudgetJudged)]
        if events:
            subject = f"bursar.{self._cluster}.{BudgetJudged.wire_type}.*"
            expected = Expectation(subject, self._replica.last[BudgetJudged.wire_type])
            try:
                await self._transport.publish(events, expect=expected)
            except WrongExpectationError:
                _log.info("another process judged budgets before; the next round judges again")
                return judged
        state.keep(judged)
        return judged

    def _event(self, fact: BudgetJudged) -> Event:
        return fact.event(
            cluster=self._cluster,
            key=fact.quota,
            id=f"budget.judged/{self._cluster}/{fact.quota}/{fact.key}/{fact.phase}/{fact.at_s}",
            source="keeper",
            time_us=self._clock.now_us(),
        )

    async def _write(self, writer: StatusWriter, read: LedgerRead, judged: Evaluated) -> None:
        denied: set[str] = set()
        for tree in list(self._trees.trees.values()):
            for node in list(tree.nodes.values()):
                status = self._report(tree, node, read, judged) if node.kind not in denied else None
                if status is None:
                    continue
                try:
                    outcome = await writer.write(status)
                except PermissionDeniedError as error:
                    # The rights are by kind: those of the other may be there.
                    denied.add(node.kind)
                    _log.warning("the status of no %s is written: %s", node.kind, error)
                    continue
                except ClusterUnavailableError as error:
                    _log.warning("the status of quota %r is not written: %s", node.name, error)
                    return
                self._looks[node.uid] = SOON_ROUNDS
                if outcome.result == "refused":
                    _log.error("the status of quota %r is refused: %s", node.name, outcome.message)

    def _report(
        self, tree: Tree, node: TreeNode, read: LedgerRead, judged: Evaluated
    ) -> StatusReport | None:
        """The wanted status of its object; None to write nothing."""
        if node.observed is None:
            return None
        if node.kind == BUSINESS:
            return self._status(tree, node, read, judged) if node.name in read.quotas else None
        seen, figures = self._trees.quotas.get((node.kind, node.name)), None
        if self._writes_elastic and seen is not None and seen.uid == node.uid:
            figures = tree.elastic.figures(node.name)
        if seen is None or figures is None:
            return None
        return ElasticStatus(
            name=node.name, namespace=seen.namespace, uid=node.uid, figures=figures
        )

    def _status(
        self, tree: Tree, node: TreeNode, read: LedgerRead, judged: Evaluated
    ) -> BizGroupStatus:
        mine: Mapping[str, BudgetStatus] = {
            key: one for (name, key), one in read.standings.items() if name == node.name
        }
        phases = {key: judged[(node.name, key)][0] for key in mine}
        observed = read.quotas[node.name].observed
        status = status_of(
            tree, node, mine, phases, at_s=read.at_s, sequence=read.sequence,
            generation=observed.generation if observed else 0,
            forecasts={key: one for (name, key), one in self._forecasts.of.items() if name == node.name},
        )  # fmt: skip
        conditions = tuple(self._dated(node.uid, one, read.at_s) for one in status.conditions)
        return msgspec.structs.replace(status, conditions=conditions)

    def _dated(self, uid: str, condition: Condition, at_s: int) -> Condition:
        """The condition with the second at which its status became this."""
        known = self._since.get((uid, condition.type))
        if known is not None and known.status == condition.status:
            since_s = known.since_s
        else:
            since_s = condition.since_s or at_s
        dated = msgspec.structs.replace(condition, since_s=since_s)
        self._since[(uid, condition.type)] = dated
        return dated

"""The keeper's round over the ledger: budgets into the journals, judgements into the history, status into the cluster.

Source: issue 4, items 1 to 3; :mod:`reactors.admission.metering` has the rules.
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
from bus.errors import ClusterUnavailableError, PermissionDeniedError, RetryableError
from bus.events.budgets import BudgetJudged
from bus.transport import Transport
from deploy.admission import Admission
from projections import quotas
from projections.admissions import Node, Tree
from projections.admissions.queries import archived
from projections.admissions.shape import BUSINESS
from projections.budgets import Exhaustion, Phase, Rule, Schedule, Standing, advance
from projections.budgets.queries import forecast
from projections.engine.store import Store
from projections.engine.tables import checkpoints
from projections.quotas import Quota
from reactors.admission.metering import exhaustion_of, judged, metered, status_of
from reactors.effectors.elastic_status import ElasticStatus
from reactors.effectors.quota_status import Condition, Status, StatusWriter, Told

#: Between two rounds.
ROUND_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Books(msgspec.Struct, frozen=True):
    """What the ledger says at ``at_s``, after ``sequence``."""

    at_s: int
    sequence: int
    quotas: dict[str, Quota]
    #: (quota, key of cash) to how it stands.
    standings: dict[tuple[str, str], Standing]


class Metering:
    """One for a cluster, in the process that keeps. ``writer`` None: no status is written."""

    def __init__(
        self,
        admission: Admission,
        store: Store,
        transport: Transport,
        clock: Clock,
        *,
        cluster: str,
        writer: StatusWriter | None,
        writes_elastic: bool = True,
    ) -> None:
        self._admission = admission
        self._store = store
        self._transport = transport
        self._clock = clock
        self._cluster = cluster
        self._writer = writer
        self._writes_elastic = writes_elastic
        self._judged: dict[tuple[str, str], Exhaustion] = {}
        #: The phase that was said last.
        self._said: dict[tuple[str, str], Phase] = {}
        self._is_restored = False
        self._since: dict[tuple[str, str], Condition] = {}
        admission.journals.listen(self._take)

    def _take(self, event: Event) -> None:
        if event.type == BudgetJudged.wire_type and event.cluster == self._cluster:
            fact = BudgetJudged.read(event)
            # Ours are known already, and may be judged further.
            self._judged.setdefault((fact.quota, fact.key), exhaustion_of(fact))
            self._said.setdefault((fact.quota, fact.key), Phase(fact.phase))

    def _restored(self) -> dict[tuple[str, str], BudgetJudged]:
        """The newest judgements of the ledger: a process that starts goes on from them, and no grace begins anew."""
        types = (BudgetJudged.wire_type,)
        parts = archived(self._store.select, self._cluster, types)
        facts = (BudgetJudged.read(event) for events in parts for event in events)
        return {(fact.quota, fact.key): fact for fact in facts}

    async def run(self) -> None:
        """Round after round, for ever."""
        while True:
            try:
                await self.round()
            except RetryableError as error:
                _log.warning("budgets and status wait: %s", error)
            await asyncio.sleep(ROUND_SECONDS)

    async def round(self) -> None:
        """Bring everything up to now, once."""
        if not self._is_restored:
            for place, fact in (await asyncio.to_thread(self._restored)).items():
                self._judged.setdefault(place, exhaustion_of(fact))
                self._said.setdefault(place, Phase(fact.phase))
            self._is_restored = True
        books = await asyncio.to_thread(self._read, floor_seconds(self._clock.now_us()))
        await self._meter(books)
        await self._judge(books)
        if self._writer is not None:
            await self._write(self._writer, books)

    def _read(self, at_s: int) -> Books:
        select = self._store.select
        table = quotas.quotas
        query = sa.select(table).where(
            table.c.cluster == self._cluster, table.c.vanished == 0, table.c.kind == BUSINESS
        )
        found = {row.name: row for row in map(quotas.from_columns, select(query))}
        sequence = max((row[0] for row in select(sa.select(checkpoints.c.sequence))), default=0)
        standings = {}
        for name, quota in found.items():
            if quota.said is None or not quota.said.cash:
                continue
            period = Schedule.of(quota.said.budget).period_at(at_s)
            for key, hard in quota.said.cash.items():
                standings[(name, key)] = forecast(
                    select, self._cluster, name, key, period=period, hard=hard, as_of_s=at_s
                )
        return Books(at_s, sequence, found, standings)

    async def _meter(self, books: Books) -> None:
        keeper = self._admission.keeper
        assert keeper is not None
        for tree in list(self._admission.journals.trees.values()):
            mine = {place: one for place, one in books.standings.items() if place[0] in tree.nodes}
            if mine:
                await keeper.say(tree, partial(metered, standings=mine, at_s=books.at_s))

    async def _judge(self, books: Books) -> None:
        for (name, key), standing in sorted(books.standings.items()):
            said = books.quotas[name].said
            assert said is not None
            rule, before = Rule.of(said.budget), self._judged.get((name, key))
            now = advance(before, standing, books.at_s)
            fact = judged(
                name, key, before, now, standing, rule,
                said=self._said.get((name, key)), based_on=books.sequence,
            )  # fmt: skip
            if fact is not None:
                await self._transport.publish([self._event(fact)])
            self._judged[(name, key)], self._said[(name, key)] = now, now.phase(rule)
        for place in self._judged.keys() - books.standings.keys():
            # A budget that comes back begins anew.
            del self._judged[place]
            self._said.pop(place, None)

    def _event(self, fact: BudgetJudged) -> Event:
        return fact.event(
            cluster=self._cluster,
            key=fact.quota,
            id=f"budget.judged/{self._cluster}/{fact.quota}/{fact.key}/{fact.phase}/{fact.at_s}",
            source="keeper",
            time_us=self._clock.now_us(),
        )

    async def _write(self, writer: StatusWriter, books: Books) -> None:
        denied: set[str] = set()
        for tree in list(self._admission.journals.trees.values()):
            for node in list(tree.nodes.values()):
                status = self._told(tree, node, books) if node.kind not in denied else None
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
                if outcome.result == "refused":
                    _log.error("the status of quota %r is refused: %s", node.name, outcome.message)

    def _told(self, tree: Tree, node: Node, books: Books) -> Told | None:
        """What its object shall say; None where nothing is written."""
        if node.observed is None:
            return None
        if node.kind == BUSINESS:
            return self._status(tree, node, books) if node.name in books.quotas else None
        seen, figures = self._admission.view.quotas.get((node.kind, node.name)), None
        if self._writes_elastic and seen is not None and seen.uid == node.uid:
            figures = tree.elastic.figures(node.name)
        if seen is None or figures is None:
            return None
        return ElasticStatus(
            name=node.name, namespace=seen.namespace, uid=node.uid, figures=figures
        )

    def _status(self, tree: Tree, node: Node, books: Books) -> Status:
        mine: Mapping[str, Standing] = {
            key: one for (name, key), one in books.standings.items() if name == node.name
        }
        phases = {key: self._judged[(node.name, key)] for key in mine}
        said = books.quotas[node.name].said
        status = status_of(
            tree, node, mine, phases, at_s=books.at_s, sequence=books.sequence,
            generation=said.generation if said else 0,
        )  # fmt: skip
        conditions = tuple(self._dated(node.uid, one, books.at_s) for one in status.conditions)
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

"""Judgements of budgets: said once for each phase, over restarts and changes of the rule."""

from types import SimpleNamespace

from bus.events.budgets import BudgetJudged
from bus.events.quotas import Budget
from bus.memory import MemoryTransport
from deploy.metering import Metering
from projections.engine.store import Store, engine
from tests import factories as f
from tests.deploy.ledgers import make_ledger

QUOTA = "biz.group.resource.quota"
GRACE = Budget(exhaustion="GraceThenEvict", grace_seconds=60)
#: A core for 50 s, spent by a pod that runs on two from second 0 on.
CASH = {"limits.cpu": 50_000}
LIFE = [
    f.namespace_observed("ns", team="blue"),
    f.node_observed("n"),
    f.pod_observed("p", 1, 0, cpu="2", labels={QUOTA: "q"}),
]


class Ledger:
    """A history, its ledger and the processes that meter it, one after the other."""

    def __init__(self, folder):
        self.folder = folder
        self.transport = MemoryTransport()
        self.at = 0
        self.version = 0

    def now_us(self):
        return f.us(self.at)

    async def rule(self, budget, cash=CASH):
        self.version += 1
        quota = f.quota_observed("q", self.version, self.at, cash=cash, hard={}, budget=budget)
        await self.transport.publish([quota])

    def process(self):
        """A process that starts now: it hears what is said from now on."""

        async def say(tree, make):
            """Nothing holds anything here."""

        journals = SimpleNamespace(trees={}, listen=lambda take: None)
        admission = SimpleNamespace(journals=journals, keeper=SimpleNamespace(say=say))
        return Metering(admission, None, self.transport, self, cluster=f.CLUSTER, writer=None)

    async def round(self, process, at):
        """What is said at a second: phase, and since when it is exhausted."""
        self.at = at
        folder = self.folder / f"{at}-{len(self.transport.events)}"
        folder.mkdir()
        process._store = Store(
            engine(f"sqlite:///{make_ledger(folder, self.transport.events) / 'ledger.db'}")
        )
        known = len(self.transport.events)
        await process.round()
        process._store.close()
        said = [BudgetJudged.read(event) for event in self.transport.events[known:]]
        return [(one.phase, one.exhausted_s - f.START_S) for one in said]


async def living(folder, budget):
    ledger = Ledger(folder)
    await ledger.transport.publish(LIFE)
    await ledger.rule(budget)
    return ledger


async def test_a_restart_does_not_begin_the_grace_anew(tmp_path):
    ledger = await living(tmp_path, GRACE)
    first = ledger.process()
    assert [("Exhausted", 30)] == await ledger.round(first, 30)
    assert [] == await ledger.round(first, 40)
    second = ledger.process()

    assert [] == await ledger.round(second, 80)
    assert [("GraceOver", 30)] == await ledger.round(second, 95)
    assert [] == await ledger.round(ledger.process(), 100)


async def test_who_takes_grace_then_evict_back_is_judged_anew(tmp_path):
    ledger = await living(tmp_path, GRACE)
    process = ledger.process()
    await ledger.round(process, 30)
    assert [("GraceOver", 30)] == await ledger.round(process, 95)
    await ledger.rule(Budget(exhaustion="DenyNew"))
    assert [("Exhausted", 30)] == await ledger.round(process, 100)
    await ledger.rule(GRACE)

    assert [("GraceOver", 30)] == await ledger.round(process, 110)


async def test_a_budget_that_was_taken_away_and_comes_back_begins_anew(tmp_path):
    ledger = await living(tmp_path, GRACE)
    process = ledger.process()
    await ledger.round(process, 30)
    await ledger.round(process, 95)
    await ledger.rule(GRACE, cash={})
    assert [] == await ledger.round(process, 100)
    await ledger.rule(GRACE)

    assert [("Exhausted", 110)] == await ledger.round(process, 110)

"""A history, its ledger and the processes that meter it."""

from types import SimpleNamespace

from bus.events.budgets import BudgetJudged
from projections.catalogue import MODEL
from projections.engine.store import Store, engine
from projections.engine.tables import checkpoints
from reactors.budgets.reactor import reactor
from reactors.budgets.rounds import Metering
from reactors.engine.replica import Replica
from tests import factories as f
from tests.deploy.ledgers import make_ledger
from tests.scenario import History

QUOTA = "biz.group.resource.quota"


#: A core for 50 s, spent by a pod that runs on two from second 0 on.
CASH = {"limits.cpu": 50_000}


LIFE = [
    f.namespace_observed("ns", team="blue"),
    f.node_observed("n"),
    f.pod_observed("p", 1, 0, cpu="2", labels={QUOTA: "q"}),
]


class Ledger(History):
    """A history, its ledger and the processes that meter it, one after the other."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.version = 0

    async def rule(self, budget, cash=CASH):
        self.version += 1
        quota = f.quota_observed("q", self.version, self.at(), cash=cash, hard={}, budget=budget)
        await self.publish(quota)

    def process(self):
        """A process that starts now."""

        async def say(tree, make):
            """Nothing holds anything here."""

        trees = SimpleNamespace(trees={}, quotas={}, say=say)
        replica = Replica([reactor], f.CLUSTER)
        return Metering(replica, trees, None, self.transport, self.clock, writer=None)

    async def round(self, process, at, *, hears=True, version=MODEL.version):
        """What is said at a second: phase, and since when it is exhausted. ``version``: of the ledger's rows."""
        self.clock.us = f.us(at)
        folder = self.folder / f"{at}-{len(self.transport.events)}"
        folder.mkdir()
        process._store = Store(
            engine(f"sqlite:///{make_ledger(folder, self.transport.events) / 'ledger.db'}")
        )
        with process._store.engine.begin() as connection:
            connection.execute(checkpoints.update().values(version=version))
        known = len(self.transport.events)
        for event in self.transport.events[process._replica.sequence :] if hears else ():
            process._replica.apply(event)
        await process.round()
        process._store.close()
        said = [BudgetJudged.read(event) for event in self.transport.events[known:]]
        return [(one.phase, one.exhausted_s - f.START_S) for one in said]


async def living(folder, budget):
    ledger = Ledger(folder)
    await ledger.publish(LIFE)
    await ledger.rule(budget)
    return ledger

"""What happens while a part is away: the rows of the table in docs/admission.md that need no API server.

With Bursar itself away the API server's failurePolicy decides: tests/reactors/webhook/test_cluster.py,
`test_while_the_webhook_is_gone_the_policy_decides`; what passed is charged when it is seen:
test_handler.py, `test_what_passed_unseen_is_charged_when_it_is_seen`.
"""

import asyncio
import os
import signal

import pytest

from bus.embedded import EmbeddedServer
from bus.errors import LedgerError
from bus.jetstream import JetStream
from bus.streams import history
from reactors.budgets.reactor import reactor
from reactors.budgets.rounds import Metering
from reactors.engine.replica import Replica
from tests.reactors.cluster import Cluster, job
from tests.reactors.outages import Away, answered, body

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Cluster(Away()) as running:
        await running.see_quota("team", {"limits.cpu": 4000})
        yield running
        running.transport.gate = ""


@pytest.mark.parametrize("gate", ["hangs", "away"])
async def test_with_the_bus_away_what_asks_for_more_is_refused_in_time(cluster, gate):
    cluster.transport.gate = gate

    response = await answered(cluster, body(job("a", 1)))

    assert not response["allowed"]
    assert response["status"]["reason"] == "bursar-unavailable"
    assert response["status"]["code"] == 503


@pytest.mark.parametrize("gate", ["hangs", "away"])
async def test_with_the_bus_away_everything_else_passes(cluster, gate):
    cluster.transport.gate = gate
    old = job("a", 1)
    new = job("a", 1)
    new["metadata"]["finalizers"] = []
    labelled = job("a", 1)
    labelled["metadata"]["labels"]["note"] = "mine"
    labelled["spec"]["template"]["metadata"] = {"annotations": {"note": "mine"}}
    more = job("a", 2)

    assert (await answered(cluster, body(labelled, "UPDATE", old)))["allowed"]
    assert not (await answered(cluster, body(more, "UPDATE", old)))["allowed"]
    assert not (await answered(cluster, body(job("a", 1, "other"), "UPDATE", old)))["allowed"]
    assert (await answered(cluster, body(job("a", 9, quota=""))))["allowed"]
    assert (await answered(cluster, body(new, "UPDATE", old)))["allowed"]


async def test_after_the_bus_came_back_it_goes_on_by_itself(cluster):
    cluster.transport.gate = "away"
    await answered(cluster, body(job("a", 1)))
    cluster.transport.gate = ""

    assert (await answered(cluster, body(job("b", 3))))["allowed"]
    assert cluster.used() == 3000


async def test_with_the_keeper_away_too_much_is_refused_and_never_too_much_admitted():
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        cluster.admission.keeper.work = idle
        await cluster.ask("a", 4)
        await cluster.see("a", 0)

        assert (await cluster.ask("b", 1)).reason == "over-quota"
        assert cluster.used() == 4000


async def test_with_the_ledger_away_reviews_are_answered_and_budgets_burn_on(cluster):
    class Broken:
        def select(self, query):
            raise LedgerError("a test")

        checkpoint = select

    replica, keeper = Replica([reactor], "c1"), cluster.admission.keeper
    metering = Metering(replica, keeper, Broken(), cluster.transport, cluster.clock, writer=None)
    with pytest.raises(LedgerError):
        await metering.round()

    assert (await cluster.ask("a", 4)).allowed
    assert cluster.used() == 4000


@pytest.mark.nats
async def test_a_bus_that_is_killed_and_started_again_loses_no_decision(tmp_path):
    server = EmbeddedServer(tmp_path)
    await server.start()
    transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
    async with Cluster(transport) as cluster:
        await cluster.see_quota("team", {"limits.cpu": 100_000})
        for number in range(30):
            if number in (10, 20):
                os.kill(server.pid, signal.SIGKILL)
            assert (await cluster.ask(f"a{number}", 1)).allowed

        assert cluster.used() == 30_000
    await transport.close()
    await server.stop()


async def idle():
    await asyncio.sleep(0.01)

"""A decision that is stored after its asker was refused: it stays charged for nobody, and nothing untrue is said of it.

Covers creates, raises of what exists, an answer that crosses its own decision, and a process that ends before it could
take back: then the charge lapses by the rules of evidence.
"""

import asyncio
import os
import signal

import pytest

from bus.embedded import EmbeddedServer
from bus.jetstream import JetStream
from bus.streams import history
from tests.cluster.pausing import pause
from tests.reactors.cluster import Cluster, job
from tests.reactors.outages import Away, answered, body, late

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Cluster(Away()) as running:
        await running.see_quota("team", {"limits.cpu": 8000})
        yield running
        running.transport.gate = ""


async def until(condition, seconds=20):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def reasons(cluster):
    return [one["reason"] for fact in cluster.said("released") for one in fact["releases"]]


@pytest.mark.nats
async def test_what_a_paused_bus_stores_late_is_taken_back(tmp_path):
    server = EmbeddedServer(tmp_path)
    await server.start()
    transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
    async with Cluster(transport) as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        decided = []
        cluster.admission.journals.listen(lambda event: decided.append(event.type))
        pause(server.pid)
        try:
            response = await answered(cluster, body(job("a", 4)))
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await until(lambda: "admission.decided" in decided)
        await until(lambda: cluster.used() == 0)

        assert response["status"]["reason"] == "bursar-unavailable"
        assert "unknown, ask again" in response["status"]["message"]
        assert "charged" not in response["status"]["message"]
        assert "admission.released" in decided
        assert (await cluster.ask("b", 4)).allowed
    await transport.close()
    await server.stop()


async def test_a_raise_that_is_stored_late_leaves_what_was_held_before(cluster):
    await cluster.ask("a", 3)
    await cluster.see("a", 3)

    response = await late(cluster, body(job("a", 7), "UPDATE", job("a", 3)))

    assert not response["allowed"]
    assert cluster.used() == 3000
    assert reasons(cluster) == ["unanswered"]


async def test_an_object_that_exists_all_the_same_is_charged_when_it_is_seen(cluster):
    await late(cluster, body(job("a", 7)))
    assert cluster.used() == 0
    await cluster.see("a", 7)

    assert cluster.used() == 7000


async def test_a_later_request_of_the_same_object_keeps_its_charge(cluster):
    cluster.transport.gate = "late"
    await answered(cluster, body(job("a", 3)))
    asked = asyncio.create_task(cluster.ask("a", 5))
    await asyncio.sleep(0.05)
    cluster.transport.gate = ""
    cluster.transport.opened.set()

    assert (await asked).allowed
    await asyncio.sleep(0.05)
    await cluster.settled()
    assert cluster.used() == 5000


async def test_where_nobody_takes_back_the_charge_lapses_with_a_complete_list(cluster):
    cluster.admission.withdrawals.refused = lambda request: None
    await late(cluster, body(job("a", 7)))
    assert cluster.used() == 7000
    cluster.clock.after(75)
    await cluster.list()

    assert cluster.used() == 0
    assert reasons(cluster) == ["lapsed"]


async def test_in_shadow_mode_a_bus_that_is_away_refuses_nothing(cluster):
    cluster.transport.gate = "hangs"

    response = await answered(cluster, body(job("a", 7)), is_shadow=True)

    assert response["allowed"]
    assert "would refuse" in response["warnings"][0]


async def test_requests_without_an_answer_are_remembered_up_to_a_bound(cluster, monkeypatch):
    monkeypatch.setattr("reactors.admission.deciding.withdrawing.MOST", 5)
    for number in range(12):
        cluster.admission.withdrawals.asked(f"r{number}", None)
        cluster.admission.withdrawals.refused(f"r{number}")

    assert len(cluster.admission.withdrawals) == 5

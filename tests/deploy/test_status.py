"""What `bursar status` says of a bus that is ahead of its ledger."""

import asyncio
import json

import pytest

from bus.embedded import EmbeddedServer
from bus.jetstream import JetStream
from bus.streams import history
from deploy.cli.exits import Exit
from projections.books import Books
from projections.catalogue import VERSION
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from tests import factories as said
from tests.deploy.ledgers import EVENTS, make_ledger, process

BACKLOG = 3_000


@pytest.mark.nats
async def test_e12_a_backlog_is_a_lag_that_a_monitor_can_ask_for(tmp_path):
    data = make_ledger(tmp_path)
    backlog = [said.pod_observed(f"p{n}", n + 10, 1) for n in range(BACKLOG)]

    async def status(*options):
        ended = await asyncio.to_thread(process, "status", "--data", data, "-o", "json", *options)
        found = json.loads(ended.stdout)
        return ended.returncode, found["lag"], found["healthy"]

    async with EmbeddedServer(tmp_path) as server:
        bus = await JetStream.connect(server.url, history(), credentials=server.credentials)
        await bus.publish([*EVENTS, *backlog])

        assert await status() == (0, BACKLOG, True)
        assert await status("--max-lag", "1000") == (Exit.UNHEALTHY, BACKLOG, False)

        store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
        await Runner(store, Books(store), bus, VERSION).run(live=False)
        store.close()
        assert await status("--max-lag", "0") == (0, 0, True)
        await bus.close()

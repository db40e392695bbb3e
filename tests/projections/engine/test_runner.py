"""The runner stops where going on would be wrong, and says so."""

import msgspec
import pytest
import sqlalchemy as sa

from bus.errors import LedgerNewerError
from bus.memory import MemoryTransport
from migrations.schema import upgrade
from projections.books import Books
from projections.catalogue import VERSION
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from projections.engine.tables import parked
from tests import factories as f


async def test_an_event_of_a_newer_version_is_parked_and_stops_the_runner_e2(tmp_path):
    store = Store(engine(f"sqlite:///{tmp_path}/ledger.db"))
    upgrade(store.engine)
    transport = MemoryTransport()
    newer = msgspec.structs.replace(f.pod_observed("b"), version=99)
    await transport.publish([f.pod_observed("a"), newer])
    runner = Runner(store, Books(store), transport, VERSION)

    with pytest.raises(LedgerNewerError, match="newer than this program"):
        await runner.run(live=False)

    found = store.select(sa.select(parked.c.sequence))
    assert ([(2,)], 2) == (found, store.checkpoint(VERSION).sequence)
    store.close()

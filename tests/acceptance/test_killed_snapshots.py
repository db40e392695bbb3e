"""A whole `bursar up` without a cluster, killed while it writes snapshots and between them, knows the same after the next start.

The child reads a history as `bursar up` does: one runner keeps the ledger, admission and the reactors follow, and each writes
snapshots far more often than in earnest. It kills itself at the n-th label of any of them.
"""

import asyncio
import os
import shutil
import signal
from contextlib import AsyncExitStack

import pytest

from bus import crashpoints
from bus.clock import SystemClock
from bus.memory import MemoryTransport
from bus.waiting import beside
from deploy.runtime.reactors import acting
from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.heads import HeadKeeper, Signer
from projections.engine.runner import Runner
from projections.engine.snapshots import last
from projections.engine.store import Store, engine
from projections.engine.verify import verify
from reactors.admitting import following
from reactors.catalogue import REACTORS
from reactors.engine import snapshots as writing
from reactors.engine.replica import Replica
from reactors.engine.snapshots import reader_of
from reactors.rederive.snapshots import charged, compared
from tests.reactors.engine.restoring import folded, known, readers_of
from tests.recording import recorded

pytestmark = pytest.mark.long

HISTORY = recorded()[:1_600]
CLUSTER = HISTORY[0].cluster
LABELS = [one for one in crashpoints.LABELS if one.startswith(("snapshot.", "store."))]
#: The ledger stores in few transactions what is told that fast.
POINTS = [(one, n) for one in LABELS for n in ((1, 2, 4) if one.startswith("snapshot.") else (1,))]


class Transport(MemoryTransport):
    """A bus that has the history, tells it a little at a time, and takes nothing: nothing new is said."""

    def __init__(self):
        super().__init__()
        self.events = list(HISTORY)
        self.read_after = []

    async def read(self, *, after, **options):
        self.read_after.append(after)
        async for events in super().read(after=after, **{**options, "batch": 100}):
            yield events
            await asyncio.sleep(0.002)

    async def publish(self, events, *, expect=None):
        await asyncio.Event().wait()


async def up(folder):
    """Follow to the end and stop. Gives what admission and the reactors know, and from where the bus was read."""
    transport, store = Transport(), Store(engine(f"sqlite:///{folder / 'ledger.db'}"))
    signer = Signer(folder / "key")
    committed = HeadKeeper(store, signer).committed
    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        runner = Runner(store, Folder(MODEL, store), transport, committed=committed)
        await stack.enter_async_context(beside(runner.run()))
        admission = await stack.enter_async_context(
            following(
                transport, SystemClock(), cluster=CLUSTER, source="up", keeps=False, ledger=store, signer=signer,
            )
        )  # fmt: skip
        reactors = await stack.enter_async_context(
            acting(transport, None, {}, name=CLUSTER, ledger=store, signer=signer)
        )
        while runner.checkpoint.sequence < len(HISTORY):
            await asyncio.sleep(0.01)
        return dict(charged(admission.journals, admission.view)), known(reactors.replica)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    made = engine(f"sqlite:///{folder / 'ledger.db'}")
    upgrade(made)
    made.dispose()
    return folder


@pytest.fixture(scope="module")
def whole():
    readers = readers_of(HISTORY, cluster=CLUSTER)
    replica = folded(Replica(REACTORS, CLUSTER), HISTORY, [], decides_on=lambda _: False)
    return dict(charged(readers.journals, readers.view)), known(replica)


def killed(folder, label, number):
    """Whether a child that follows was killed at the n-th time that it came to ``label``."""
    child = os.fork()
    if child == 0:
        hits = []

        def hook(hit):
            if hit == label:
                hits.append(hit)
                if len(hits) == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        crashpoints.install(hook)
        asyncio.run(up(folder))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(("label", "number"), POINTS)
def test_killed_anywhere_the_next_start_knows_the_same(
    template, whole, tmp_path, monkeypatch, label, number
):
    monkeypatch.setattr(writing, "EVERY", 100)
    monkeypatch.setattr(writing, "PAUSE", 0)
    folder = shutil.copytree(template, tmp_path / "data")

    assert killed(folder, label, number)
    # Once more, while it recovers.
    killed(folder, label, number)
    found = asyncio.run(up(folder))

    assert whole == found
    store = Store(engine(f"sqlite:///{folder / 'ledger.db'}"))
    assert len(HISTORY) == last(store.select, reader_of(Replica(REACTORS, CLUSTER)))
    again = compared(store.select, REACTORS, CLUSTER, MemoryTransport(), SystemClock())
    assert (2, ()) == (again.same, again.differences)
    assert [] == [one for one in verify(MODEL, store).findings if one.what == "snapshot"]
    store.close()

"""The recorded trace openb gives one ledger, whatever happens to its events on the way.

Reads the public trace Alibaba clusterdata gpu-v2023 ("openb"); without it the tests are skipped.
"""

import asyncio
import os
import random
from pathlib import Path

import msgspec
import pytest

from bus.memory import MemoryTransport
from bus.sources.openb import read_trace
from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine import replay
from projections.engine.dump import digest
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine

#: A checkout with `shared/` beside it, or the folder that BURSAR_SHARED names.
SHARED = Path(os.environ.get("BURSAR_SHARED") or Path(__file__).parents[3] / "shared")
TRACE = SHARED / "traces" / "openb"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.computes,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not TRACE.is_dir(),
        reason='needs the public trace Alibaba clusterdata gpu-v2023 ("openb"): '
        "BURSAR_SHARED names the folder that has traces/openb",
    ),
]

#: How far shuffling moves an event: several hundred places, over many pods' lives.
WINDOW = 500


@pytest.fixture(scope="module")
def events():
    return list(read_trace(TRACE))


def shuffled(events, seed):
    """Every event moved by less than `WINDOW` places."""
    dice = random.Random(seed)
    places = [(number + dice.uniform(0, WINDOW), event) for number, event in enumerate(events)]
    return [event for _, event in sorted(places, key=lambda place: place[0])]


def doubled(events, seed):
    """A third of the events said twice, under another id as after the duplicate window."""
    dice = random.Random(seed)
    again = [
        msgspec.structs.replace(event, id=f"{event.id}/again")
        for event in events
        if dice.random() < 0.33
    ]
    return shuffled(events + again, seed)


def ledger(url, events, batch):
    """A ledger over `events`, open."""
    store = Store(engine(url))
    upgrade(store.engine)

    async def play():
        transport = MemoryTransport()
        await transport.publish(events)
        await Runner(store, Folder(MODEL, store), transport, batch=batch).run(live=False)

    asyncio.run(play())
    return store


@pytest.fixture(scope="module")
def expected(events, tmp_path_factory):
    """The digest of the trace in order, in batches of 1000, on SQLite."""
    store = ledger(f"sqlite:///{tmp_path_factory.mktemp('openb')}/ledger.db", events, 1000)
    found = digest(MODEL, store)
    store.close()
    return found


@pytest.mark.parametrize(
    ("change", "batch"),
    [
        (lambda events: events, 7),
        (lambda events: events, 1),
        (lambda events: shuffled(events, 1), 1000),
        (lambda events: doubled(events, 3), 1000),
    ],
    ids=["in batches of 7", "in batches of 1", "shuffled", "doubled"],
)
def test_the_trace_gives_one_digest(events, expected, tmp_path, change, batch):
    store = ledger(f"sqlite:///{tmp_path}/ledger.db", change(events), batch)
    found = digest(MODEL, store)
    store.close()

    assert expected == found


@pytest.mark.postgres
def test_the_trace_gives_the_same_digest_on_postgresql(events, expected, postgres_url):
    store = ledger(postgres_url, shuffled(events, 4), 100)
    found = digest(MODEL, store)
    store.close()

    assert expected == found


def test_a_replay_of_the_trace_gives_the_same_rows(events, expected, tmp_path):
    store = ledger(f"sqlite:///{tmp_path}/ledger.db", doubled(events, 5), 1000)
    rebuilt = replay.rebuild(MODEL, store)
    comparison = replay.compare(store, rebuilt)
    found = digest(MODEL, store)
    store.close()

    assert (True, expected) == (comparison.equal, found)

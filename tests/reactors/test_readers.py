"""Admission starts from a snapshot and what came after it, and knows what it would know from the beginning."""

import asyncio
import random
import shutil

import msgspec
import pytest

from bus.clock import SystemClock
from bus.memory import MemoryTransport
from projections.engine.heads import Signer
from projections.engine.snapshots import last, write
from projections.engine.store import Store, engine
from reactors.admitting import following
from reactors.engine.snapshots import Snapshots, last_archived, reader_of
from reactors.rederive.snapshots import charged
from tests.reactors.engine.restoring import WRONG, answers_of, archived_in, known_to, readers_of
from tests.recording import recorded


def test_the_recording_broken_off_at_many_places_is_known_alike():
    history = recorded()
    whole = readers_of(history)
    found = readers_of(history, cuts={*random.Random(5).sample(range(1, len(history)), 30)})

    assert known_to(whole) == known_to(found)
    assert answers_of(whole) == answers_of(found)
    assert whole.journals.holders == found.journals.holders
    for name, tree in whole.journals.trees.items():
        other = found.journals.trees[name]
        assert tree.holders == other.holders
        assert [tree.elastic.figures(q) for q in tree.nodes] == [
            other.elastic.figures(q) for q in other.nodes
        ]


HISTORY = recorded()[:3_000]


class Transport(MemoryTransport):
    """A bus that has a history, and remembers from where it was read."""

    def __init__(self, history):
        super().__init__()
        self.events = list(history)
        self.read_after = []

    def read(self, *, after, **options):
        self.read_after.append(after)
        return super().read(after=after, **options)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return archived_in(tmp_path_factory.mktemp("archive") / "ledger.db", HISTORY)


@pytest.fixture
def store(tmp_path, archive):
    made = Store(engine(f"sqlite:///{shutil.copy(archive, tmp_path)}"))
    yield made
    made.close()


def started(transport, store):
    return following(
        transport, SystemClock(), cluster="default", source="test", keeps=False, ledger=store
    )


async def test_a_clean_end_leaves_a_snapshot_and_the_next_start_reads_on_from_it(store):
    whole = readers_of(HISTORY)
    for known in (0, len(HISTORY)):
        transport = Transport(HISTORY)
        assert known == last(store.select, reader_of(whole))
        async with started(transport, store) as admission:
            while not transport.read_after:
                await asyncio.sleep(0)
            # The archive has all of it, so the bus is read behind it.
            assert [len(HISTORY)] == transport.read_after
            assert whole.journals.places == admission.journals.places
            assert whole.journals.holders == admission.journals.holders
            for name, tree in whole.journals.trees.items():
                assert tree.number == admission.journals.trees[name].number

    assert last_archived(store.select) == len(HISTORY)


async def test_none_is_written_while_an_own_entry_is_still_to_be_read(store):
    readers = readers_of(HISTORY)
    readers.journals._own[len(HISTORY) + 1] = ()
    await Snapshots(store, readers).end()

    assert not readers.is_pure
    assert 0 == last(store.select, reader_of(readers))


async def test_who_does_not_write_the_ledger_reads_the_bus_on_from_what_its_key_sealed(
    store, tmp_path
):
    signer, other = Signer(tmp_path / "key"), Signer(tmp_path / "other")
    for sequence, sealed_by in ((1_000, signer), (2_000, other)):
        readers = readers_of(HISTORY[:sequence])
        state = msgspec.msgpack.encode(readers.saved())
        assert write(store, reader_of(readers), sequence, state, sealed_by.seal)
    transport, whole = Transport(HISTORY), readers_of(HISTORY)
    async with following(
        transport, SystemClock(), cluster="default", source="test", keeps=False, ledger=store, signer=signer,
        writes=False,
    ) as admission:  # fmt: skip
        assert dict(charged(whole.journals, whole.view)) == dict(
            charged(admission.journals, admission.view)
        )

    assert [1_000] == transport.read_after
    assert 2_000 == last(store.select, reader_of(whole))


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_snapshot_is_passed_over(store, wrong):
    readers = readers_of(HISTORY[:2_000])
    assert write(store, reader_of(readers), 2_000, msgspec.msgpack.encode(readers.saved()))
    with store.engine.begin() as connection:
        connection.execute(WRONG[wrong])
    transport = Transport(HISTORY)
    async with following(
        transport, SystemClock(), cluster="default", source="test", keeps=False, ledger=store, writes=False
    ) as admission:  # fmt: skip
        whole = readers_of(HISTORY)
        assert dict(charged(whole.journals, whole.view)) == dict(
            charged(admission.journals, admission.view)
        )

    assert [0] == transport.read_after

"""A snapshot that somebody changed, its digest made anew: no decision rests on it, and `bursar verify` names it."""

import msgspec
import pytest

from bus.clock import SystemClock
from bus.memory import MemoryTransport
from projections.catalogue import MODEL
from projections.engine.heads import HeadKeeper, Signer
from projections.engine.snapshots import write
from projections.engine.store import Store, engine
from projections.engine.tables import snapshots
from projections.engine.verify import verify
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.engine.snapshots import at, reader_of
from reactors.engine.verify import rederive
from reactors.rederive.snapshots import SnapshotComparison, compared
from tests.reactors.engine.restoring import archived_in, folded, readers_of
from tests.recording import recorded

CLUSTER = "default"
HISTORY = recorded()[:3_000]


def replica_at(sequence, cuts=()):
    made = Replica(REACTORS, CLUSTER)
    return folded(made, HISTORY[:sequence], [], decides_on=lambda _: False, cuts=cuts)


@pytest.fixture
def store(tmp_path):
    made = Store(engine(f"sqlite:///{archived_in(tmp_path / 'ledger.db', HISTORY)}"))
    yield made
    made.close()


@pytest.fixture
def signer(tmp_path):
    return Signer(tmp_path / "key")


def keep(store, knows, signer=None, **changed):
    """Write a snapshot; what is ``changed`` is not what the history gives."""
    saved = msgspec.structs.replace(knows.saved(), **changed)
    seal = None if signer is None else signer.seal
    assert write(store, reader_of(knows), knows.sequence, msgspec.msgpack.encode(saved), seal)


def comparison(store):
    return SnapshotComparison(
        store.select, REACTORS, CLUSTER, MemoryTransport(), SystemClock(), is_beside=True
    )


def found(store):
    """What comes of it, also beside the replica that decides all again."""
    beside = comparison(store)

    def history():
        for event in HISTORY:
            beside.apply(event)
            yield event

    rederive(history, REACTORS, CLUSTER, [], beside.known)
    alone = compared(store.select, REACTORS, CLUSTER, MemoryTransport(), SystemClock())
    assert beside.end() == alone
    return alone


def test_a_replica_with_a_decision_ahead_of_the_history_is_not_what_is_compared(store):
    keep(store, replica_at(2_000))
    ahead, beside = replica_at(2_000), comparison(store)
    ahead.made([HISTORY[2_000]])
    beside.known(ahead, 2_001)

    assert (1, ()) == (beside.end().same, beside.end().differences)


def test_a_snapshot_of_the_newest_event_is_compared_beside_too(store):
    replica = replica_at(3_000)
    interlocks = replica.interlocks.saved()
    interlocks.ticked_us += 1
    keep(store, replica, interlocks=interlocks)

    assert [("reactors", 3_000)] == [(one.name, one.sequence) for one in found(store).differences]


def test_snapshots_of_processes_that_started_from_others_are_what_the_history_gives(store):
    keep(store, replica_at(2_500, cuts={700, 2_000}))
    keep(store, readers_of(HISTORY[:2_800], cuts={500, 2_100}))

    assert (2, ()) == (found(store).same, found(store).differences)


def test_without_a_snapshot_there_is_nothing_to_compare(store):
    assert (0, ()) == (found(store).same, found(store).differences)


def test_a_changed_part_is_named(store):
    replica, readers = replica_at(2_000), readers_of(HISTORY[:2_000])
    interlocks = replica.interlocks.saved()
    interlocks.ticked_us += 1
    keep(store, replica, interlocks=interlocks)
    tree = next(iter(readers.journals.trees.values()))
    tree.total["limits.cpu"] = 1
    keep(store, readers)

    assert [
        ("reactors", 2_000, ("interlocks",)),
        ("admission", 2_000, (f"tree {tree.name}",)),
    ] == [(one.name, one.sequence, one.parts) for one in found(store).differences]


def test_who_decides_begins_with_what_its_own_key_sealed(store, signer, tmp_path):
    keep(store, replica_at(1_000), signer)
    keep(store, replica_at(1_500), Signer(tmp_path / "other"))
    keep(store, replica_at(2_000))
    read = []

    def select(query):
        text = str(query)
        read.append("FROM snapshots" in text and "state" in text and query.compile().params)
        return store.select(query)

    replica = at(select, REACTORS, CLUSTER, keys=(signer.public_key,))

    tried = [one["sequence_1"] for one in read if one]
    assert [2_000, 1_500, 1_000] == tried
    assert replica_at(3_000).saved() == replica.saved()


def verified(store, **options):
    return [(one.what, one.sequence) for one in verify(MODEL, store, **options).findings]


def test_verify_names_what_is_damaged_or_sealed_by_nobody_or_another_key(store, signer, tmp_path):
    before = [one for one in verified(store) if one[0] == "snapshot"]
    HeadKeeper(store, signer).keep(store.checkpoint(MODEL.version))
    keep(store, replica_at(1_000), signer)
    keep(store, replica_at(1_500))
    keep(store, replica_at(2_000), Signer(tmp_path / "other"))
    first, *rest = [one for one in verified(store) if one[0] == "snapshot"]
    with store.engine.begin() as connection:
        connection.execute(snapshots.delete().where(snapshots.c.sequence != 1_000))
    whole = [one for one in verified(store) if one[0] == "snapshot"]
    with store.engine.begin() as connection:
        connection.execute(snapshots.update().values(state=b"\x28\xb5\x2f\xfd"))
    damaged = [one for one in verified(store) if one[0] == "snapshot"]

    assert [("snapshot", 1_500), ("snapshot", 2_000)] == [first, *rest]
    assert ([], [], [("snapshot", 1_000)]) == (before, whole, damaged)


def test_a_snapshot_of_an_older_form_is_no_finding(store, signer):
    HeadKeeper(store, signer).keep(store.checkpoint(MODEL.version))
    keep(store, replica_at(1_000))
    with store.engine.begin() as connection:
        connection.execute(snapshots.update().values(version="1-older"))

    assert [] == [one for one in verified(store) if one[0] == "snapshot"]

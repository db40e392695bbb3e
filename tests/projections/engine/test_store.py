"""The store's contract, the same on SQLite and PostgreSQL: a batch is written whole or not at all, and exactly."""

import pytest
import sqlalchemy as sa

from bus import crashpoints
from bus.envelope import chain
from projections import usage
from projections.catalogue import MODEL
from projections.engine import tables
from projections.engine.changes import Changes, Parked
from projections.engine.checkpoint import Checkpoint
from projections.engine.dump import digest
from projections.engine.folder import Folder
from projections.engine.segments.reading import with_links
from projections.engine.sums import Restatement
from projections.namespaces import namespaces
from projections.workloads import workloads
from tests import factories as given
from tests.projections.engine.archives import fill, ledger, lives, sequenced

LIVES = lives(20)
LABELS = [label for label in crashpoints.LABELS if label.startswith("store.")]


def everything(store):
    """Every row of every table, sorted."""
    found = {}
    for table in (*MODEL.tables, tables.events, tables.checkpoints, tables.parked):
        rows = store.select(sa.select(table).order_by(*table.primary_key.columns))
        found[table.name] = [
            tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in rows
        ]
    return found


def workload(uid, sequence=1):
    return (uid, "c", "ns", "Job", uid, None, 0, "[[],null]", sequence)


def events(count, first=1):
    return sequenced([given.pod_observed(f"p{n}") for n in range(count)], first)


def test_an_empty_ledger_begins_at_zero(store):
    assert store.checkpoint("7") == Checkpoint("7")


def test_the_checkpoint_and_the_archive_come_back_as_they_were_written(store):
    batch = events(120)

    moved = store.commit(batch, Changes(), store.checkpoint(MODEL.version))

    assert store.checkpoint(MODEL.version) == moved
    assert with_links(store.select, 1, 1000) == list(
        zip(batch, chain(bytes(32), batch), strict=True)
    )
    assert [event.sequence for event, _ in with_links(store.select, 100, 3)] == [100, 101, 102]


@pytest.mark.parametrize("count", [1, 49, 50, 500])
def test_rows_are_replaced_by_their_key(store, count):
    rows = [workload(f"w{n}") for n in range(count)]
    again = [(*row[:4], "renamed", *row[5:8], 2) for row in rows]
    checkpoint = store.commit(
        events(1), Changes(upserts={workloads: rows}), Checkpoint(MODEL.version)
    )

    store.commit(events(1, 2), Changes(upserts={workloads: again}), checkpoint)

    assert sorted(store.rows(workloads, [(row[0],) for row in rows])) == sorted(again)


def test_any_number_of_keys_can_be_asked_for(store):
    rows = [workload(f"w{n}") for n in range(5_010)]
    store.commit(events(1), Changes(upserts={workloads: rows}), Checkpoint(MODEL.version))

    assert len(store.rows(workloads, [(row[0],) for row in rows])) == 5_010


def test_rows_are_found_by_all_columns_of_their_key_or_by_the_first_ones(store):
    batch = [
        *events(3),
        *sequenced([given.namespace_observed("a"), given.namespace_observed("b")], 4),
    ]
    store.commit(batch, Folder(MODEL, store).fold(batch), Checkpoint(MODEL.version))
    every = store.select(sa.select(namespaces))
    cluster = every[0][0]

    assert sorted(store.rows(namespaces, [(cluster, "a"), (cluster, "x")])) == sorted(every)[:1]
    assert sorted(store.rows(namespaces, [(cluster,)])) == sorted(every)
    assert store.rows(namespaces, [("a", cluster)]) == []


@pytest.mark.parametrize("groups", [1, 80])
def test_sums_are_added_to_and_go_when_nothing_counts_any_more(store, groups):
    def batch(*amounts):
        restatement = Restatement(usage.usage_days, usage.daily)
        for n in range(groups):
            restatement.differences[(n, "c", "t", "u", "ns", "w", "")] = list(amounts)
        return Changes(restatements=[restatement])

    checkpoint = store.commit(events(1), batch(1, 2, 3, 4, 1, 1), Checkpoint(MODEL.version))
    checkpoint = store.commit(events(1, 2), batch(10, 20, 30, 40, 1, 2), checkpoint)
    first = store.select(sa.select(usage.usage_days).order_by(usage.usage_days.c.day_s))
    store.commit(events(1, 3), batch(-11, -22, -33, -44, -2, 3), checkpoint)

    assert first == [(n, "c", "t", "u", "ns", "w", "", 11, 22, 33, 44, 2, 2) for n in range(groups)]
    assert store.select(sa.select(usage.usage_days)) == []


def test_parked_events_are_kept_with_their_reason(store):
    store.commit(events(1), Changes(parked=[Parked(1, "t", "k", "why")]), Checkpoint(MODEL.version))

    assert store.select(sa.select(tables.parked)) == [(1, "t", "k", "why")]


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_the_size_of_batches_changes_no_row(store, tmp_path, batch):
    whole = ledger(f"sqlite:///{tmp_path / 'whole.db'}")
    fill(whole, LIVES, batch=len(LIVES))
    fill(store, LIVES, batch=batch)

    assert everything(store) == everything(whole)
    assert digest(MODEL, store) == digest(MODEL, whole)
    whole.close()


class _Crash(BaseException):
    pass


@pytest.mark.parametrize("label", LABELS)
def test_a_crash_leaves_a_batch_whole_or_not_at_all(store, label):
    checkpoint = fill(store, LIVES[:60])
    before = everything(store)
    folder = Folder(MODEL, store)
    folder.open()
    changes = folder.fold(LIVES[60:])

    def hook(reached):
        if reached == label:
            raise _Crash

    crashpoints.install(hook)
    try:
        with pytest.raises(_Crash):
            store.commit(LIVES[60:], changes, checkpoint)
    finally:
        crashpoints.install(None)

    is_whole = label == "store.after_commit"
    assert (everything(store) == before) is not is_whole
    assert store.checkpoint(MODEL.version).sequence == (len(LIVES) if is_whole else 60)


def test_an_event_cannot_be_archived_twice(store):
    checkpoint = store.commit(events(3), Changes(), Checkpoint(MODEL.version))

    with pytest.raises(sa.exc.IntegrityError):
        store.commit(events(3), Changes(), Checkpoint(MODEL.version))

    assert store.checkpoint(MODEL.version) == checkpoint

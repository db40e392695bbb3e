"""Rebuilt rows are the live rows, whatever they were written on; what differs is shown; a swap is whole or nothing."""

import pytest
import sqlalchemy as sa

from bus import crashpoints
from bus.errors import LedgerError, UnknownEventTypeError
from projections.catalogue import MODEL
from projections.engine import folder, replay
from projections.engine.dump import digest
from projections.engine.replay import redrive
from tests import factories as given
from tests.projections.engine.archives import fill, ledger, lives, sequenced
from tests.projections.ledger import remembering

LIVES = lives(40)


@pytest.fixture
def filled(store):
    fill(store, LIVES, batch=100)
    return store


def damage(store, statement):
    with store.engine.begin() as connection:
        connection.exec_driver_sql(statement)


def test_a_rebuild_equals_the_ledger_to_the_last_column(filled):
    with replay.rebuild(MODEL, filled, batch=37) as rebuilt:
        found = replay.compare(filled, rebuilt)

        assert (found.equal, found.differences, found.sequence) == (True, (), len(LIVES))
        assert digest(MODEL, rebuilt.store) == digest(MODEL, filled)


def test_progress_ends_at_the_archives_end(filled):
    heard = []
    replay.rebuild(MODEL, filled, batch=100, progress=lambda *told: heard.append(told)).close()

    assert heard[0] == (100, len(LIVES))
    assert heard[-1] == (len(LIVES), len(LIVES))


def test_an_empty_ledger_is_rebuilt_to_an_empty_one(store):
    with replay.rebuild(MODEL, store) as rebuilt:
        assert replay.compare(store, rebuilt).equal


def test_every_kind_of_difference_is_found(filled):
    uid = LIVES[-1].key
    damage(filled, f"DELETE FROM held_segments WHERE uid = '{uid}'")
    damage(filled, "UPDATE usage_days SET sequence = 1")
    damage(filled, "INSERT INTO parked VALUES (1, 't', 'k', 'r')")

    with replay.rebuild(MODEL, filled) as rebuilt:
        found = replay.compare(filled, rebuilt)

    kinds = {d.table: d.first[0] for d in found.differences}
    assert not found.equal
    assert set(kinds) == {"held_segments", "usage_days", "parked"}
    assert kinds["held_segments"][0] is None
    assert kinds["parked"][1] is None


def test_what_came_meanwhile_is_taken_in_before_comparing(store):
    fill(store, LIVES[:150])
    with replay.rebuild(MODEL, store) as rebuilt:
        fill_rest(store, LIVES[150:])

        found = replay.compare(store, rebuilt)

    assert (found.equal, found.sequence) == (True, len(LIVES))


def fill_rest(store, events):
    fill(store, events, batch=50)


def test_a_swap_heals_damaged_rows(filled):
    right = digest(MODEL, filled)
    damage(filled, "DELETE FROM usage_hours")
    damage(filled, "UPDATE pod_runs SET team = 'x'")

    with replay.rebuild(MODEL, filled) as rebuilt:
        replay.swap(filled, rebuilt)

        assert replay.compare(filled, rebuilt).equal
    assert digest(MODEL, filled) == right


def test_a_swap_brings_other_rules_up_to_date(filled):
    damage(filled, "UPDATE checkpoints SET version = '0'")

    with replay.rebuild(MODEL, filled) as rebuilt:
        replay.swap(filled, rebuilt)

    assert filled.checkpoint(MODEL.version).version == MODEL.version


class _Crash(BaseException):
    pass


@pytest.mark.parametrize(
    "label", ["replay.before_swap", "store.before_commit", "replay.after_swap"]
)
def test_a_replay_broken_off_anywhere_starts_over(filled, label):
    right = digest(MODEL, filled)

    def hook(reached):
        if reached == label:
            raise _Crash

    crashpoints.install(hook)
    try:
        with pytest.raises(_Crash):
            redrive(MODEL, filled)
    finally:
        crashpoints.install(None)
    assert digest(MODEL, filled) == right

    redrive(MODEL, filled)

    assert digest(MODEL, filled) == right
    with replay.rebuild(MODEL, filled) as rebuilt:
        assert replay.compare(filled, rebuilt).equal


def test_a_gap_in_the_archive_stops_a_rebuild(filled):
    damage(filled, "DELETE FROM events WHERE sequence = 20")

    with pytest.raises(LedgerError, match="gap"):
        replay.rebuild(MODEL, filled)


def test_a_short_archive_stops_a_rebuild(filled):
    damage(filled, "DELETE FROM events WHERE sequence > 20")

    with pytest.raises(LedgerError, match="ends before"):
        replay.rebuild(MODEL, filled)


def test_lists_are_read_from_the_live_archive(store):
    forgetful = remembering(parts_kept=2)
    events = [given.pod_observed(f"p{n}", 1, n) for n in range(6)]
    for at in range(10, 18):
        events += given.pods_listed([f"p{n}" for n in range(6) if n != at - 10], at=at)
    events += [given.pod_observed("p3", 2, 14.5), given.pod_observed("p9", 1, 12.5)]
    fill(store, sequenced(events), batch=1, model=forgetful)

    with replay.rebuild(forgetful, store, batch=3) as rebuilt:
        assert replay.compare(store, rebuilt).equal


def test_driving_again_folds_what_a_fix_can_read(store, tmp_path, monkeypatch):
    model = ledger(f"sqlite:///{tmp_path / 'model.db'}")
    fill(model, LIVES)
    read = folder.fact_in

    def not_yet_fixed(event):
        if event.type == "pod.vanished":
            raise UnknownEventTypeError(type=event.type)
        return read(event)

    with monkeypatch.context() as before:
        before.setattr(folder, "fact_in", not_yet_fixed)
        fill(store, LIVES)
        still_parked = redrive(MODEL, store)

    assert still_parked == sum(event.type == "pod.vanished" for event in LIVES)
    assert digest(MODEL, store) != digest(MODEL, model)
    assert redrive(MODEL, store) == 0
    assert digest(MODEL, store) == digest(MODEL, model)
    model.close()


@pytest.mark.postgres
def test_figures_have_one_digest_on_every_database(tmp_path, postgres_url):
    stores = [ledger(f"sqlite:///{tmp_path / 'ledger.db'}"), ledger(postgres_url)]
    for store, batch in zip(stores, (1000, 7), strict=True):
        fill(store, LIVES, batch=batch)
    rows = [
        [store.select(sa.select(t).order_by(*t.primary_key)) for t in MODEL.tables]
        for store in stores
    ]

    assert rows[0] == rows[1]
    assert digest(MODEL, stores[0]) == digest(MODEL, stores[1])
    for store in stores:
        store.close()

"""Segments that are out of reach for a while, or on another machine, or were left there by somebody who sealed otherwise."""

import shutil

import msgspec
import pytest
import sqlalchemy as sa

from bus.errors import DamagedSegmentError, LedgerError
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.heads import Signer
from projections.engine.segments import reading
from projections.engine.segments.reading import sealed, trimmed_until
from projections.engine.segments.sealing import Sealer
from projections.engine.tables import parked, segments
from tests import factories as given
from tests.projections.engine.archives import ledger, sequenced
from tests.projections.engine.segments.histories import (
    EVERY,
    HISTORY,
    KEEP_US,
    findings,
    made,
    opened,
    seal_all,
    sealer_of,
)


def lists_of_pods():
    """Twenty pods, and more lists of them than a ledger keeps in memory."""
    said = [given.pod_observed(f"p{n}", n + 1, n, scheduled=n) for n in range(20)]
    uids = [f"p{n}" for n in range(20)]
    for hour in range(1, 81):
        said += given.pods_listed(uids, at=3_600 * hour, version=str(1_000 + hour))
    return sequenced(said)


def test_a_good_event_is_not_parked_while_a_segment_is_out_of_reach(tmp_path):
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    folder = Folder(MODEL, store)
    folder.open()
    said = lists_of_pods()
    moved = store.commit(said, folder.fold(said), store.checkpoint(MODEL.version))
    folder.settle()
    sealer = Sealer(store, Signer(tmp_path / "key"), tmp_path / "segments", 30)
    while sealer.seal() is not None:
        pass
    while sealer.trim(KEEP_US) is not None:
        pass
    # A list between two others changes when pods left, which the uids of both say.
    between = given.pods_listed(["p0"], at=3_600 * 4 + 60, version="1004")
    late = [msgspec.structs.replace(one, sequence=said[-1].sequence + n) for n, one in enumerate(between, 1)]  # fmt: skip
    (tmp_path / "segments").rename(tmp_path / "away")

    with pytest.raises(DamagedSegmentError, match="missing"):
        folder.fold(late)
    (tmp_path / "away").rename(tmp_path / "segments")
    folder = Folder(MODEL, store)
    folder.open()
    store.commit(late, folder.fold(late), moved)

    assert store.select(sa.select(parked)) == []
    at_us = between[0].time_us
    assert len(store.select(sa.text(f"SELECT 1 FROM pod_lists WHERE time_us = {at_us}"))) == 1
    store.close()


@pytest.mark.parametrize("trimmed", [0, 2])
def test_only_what_is_trimmed_is_missed_where_the_folder_is_elsewhere(tmp_path, trimmed):
    made(tmp_path, trimmed=trimmed)
    shutil.rmtree(tmp_path / "segments")

    assert len([one for one in findings(tmp_path) if one.what == "segment"]) == trimmed


def test_a_head_that_is_forged_is_found_where_the_folder_is_elsewhere(tmp_path):
    made(tmp_path, trimmed=0)
    store = opened(tmp_path)
    said = sealed(store.select)[1].head_bytes.replace(b'"newest_us":', b'"newest_us":1')
    with store.engine.begin() as connection:
        connection.execute(segments.update().where(segments.c.first == 61).values(head=said))
    store.close()
    shutil.rmtree(tmp_path / "segments")

    assert ["not signed by the key" in one.reason for one in findings(tmp_path)] == [True]


def sealed_and_forgotten(folder):
    """Sealed in segments of 60, of which the ledger has noted the first: as killed between file and note."""
    made(folder, trimmed=0)
    store = opened(folder)
    with store.engine.begin() as connection:
        connection.execute(segments.delete().where(segments.c.sequence > EVERY))
    return store


@pytest.mark.parametrize("every", [50, 70])
def test_a_segment_of_another_length_that_was_left_is_taken_as_it_is(tmp_path, every):
    store = sealed_and_forgotten(tmp_path)
    before = (tmp_path / "segments" / reading.file_name(EVERY + 1)).read_bytes()
    sealer = sealer_of(tmp_path, store, every=every)

    assert (head := sealer.seal()) is not None and (head.first, head.last) == (61, 120)
    while sealer.seal() is not None:
        pass
    assert (tmp_path / "segments" / reading.file_name(EVERY + 1)).read_bytes() == before
    while sealer.trim(KEEP_US) is not None:
        pass
    assert trimmed_until(store.select) >= 240
    assert [one for part in reading.history(store.select) for one in part] == HISTORY
    assert findings(tmp_path) == ()
    store.close()


def test_a_segment_of_another_length_by_another_key_is_not_taken(tmp_path):
    store = sealed_and_forgotten(tmp_path)
    shutil.rmtree(tmp_path / "segments")
    other = Sealer(store, Signer(tmp_path / "other"), tmp_path / "segments", 50)
    other.seal()
    with store.engine.begin() as connection:
        connection.execute(segments.delete().where(segments.c.sequence > EVERY))

    with pytest.raises(LedgerError, match="another key"):
        seal_all(tmp_path, store)
    store.close()


@pytest.mark.parametrize("trimmed", [0, 2])
def test_a_folder_that_is_not_here_is_found_where_that_of_others_is(tmp_path, trimmed):
    """Written into the ledger by somebody, so that nobody looks at the file, or left behind with `history.folder` changed."""
    made(tmp_path, trimmed=trimmed)
    store = opened(tmp_path)
    with store.engine.begin() as connection:
        connection.execute(segments.update().where(segments.c.first == 181).values(place="other"))
    store.close()

    (found,) = findings(tmp_path)
    assert (found.what, found.sequence) == ("segment", 181)
    assert str(tmp_path / "other" / reading.file_name(181)) in found.reason

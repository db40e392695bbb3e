"""Segments and table are one history: whoever reads it gets the same events before and after it was trimmed."""

import hashlib
import os
import signal

import msgspec
import pytest
import sqlalchemy as sa
import zstandard

from bus import crashpoints
from bus.envelope import GENESIS, chain
from bus.errors import DamagedSegmentError, LedgerError, SegmentPlaceError
from projections.catalogue import MODEL
from projections.engine.dump import snapshot
from projections.engine.heads import Signer
from projections.engine.past import sequence_before
from projections.engine.replay import archived, compare, discard, rebuild
from projections.engine.segments import form, reading
from projections.engine.segments.reading import Wanted, sealed, trimmed_until
from projections.engine.segments.signing import sign_segment_head
from projections.engine.tables import events, parked, segments
from projections.engine.verify import verify
from projections.quota_trees.queries import archived as of_types
from tests import factories as given
from tests.projections.engine.archives import fill, ledger, sequenced
from tests.projections.engine.segments.histories import (
    EVERY,
    HISTORY,
    KEEP_US,
    SEGMENTS,
    copied,
    findings,
    made,
    opened,
    seal_all,
    sealer_of,
)

LAST = len(HISTORY)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments")
    made(folder)
    return folder


@pytest.fixture
def place(whole, tmp_path):
    return copied(whole, tmp_path / "ledger")


@pytest.fixture
def store(place):
    found = opened(place)
    yield found
    found.close()


def flat(parts):
    return [event for part in parts for event in part]


def table_has(store):
    return [
        row[0] for row in store.select(sa.select(events.c.sequence).order_by(events.c.sequence))
    ]


def test_the_table_keeps_what_is_not_trimmed_and_what_is_parked(store):
    line = 3 * EVERY
    [(poison,)] = store.select(sa.select(parked.c.sequence))

    assert LAST // EVERY == SEGMENTS < LAST / EVERY
    assert len(sealed(store.select)) == SEGMENTS
    assert trimmed_until(store.select) == line
    assert table_has(store) == [poison, *range(line + 1, LAST + 1)]


@pytest.mark.parametrize("after, until", [(0, None), (0, 7), (59, 61), (60, 180), (100, 200), (200, LAST)])  # fmt: skip
def test_the_whole_history_is_read_from_both(store, after, until):
    expected = [e for e in HISTORY if after < e.sequence <= (until or LAST)]

    assert flat(reading.history(store.select, after=after, until=until, part=17)) == expected


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(types=frozenset({"clock.ticked"})),
        Wanted(types=frozenset({"pod.vanished"}), keys=frozenset({HISTORY[9].key})),
        Wanted(keys=frozenset({HISTORY[9].key, "n1"})),
        Wanted(id="poison"),
        Wanted(cluster="another"),
    ],
    ids=["a type", "a key and a type", "keys", "an id", "a cluster"],
)
def test_what_is_asked_for_is_found_in_both(store, wanted):
    expected = [event for event in HISTORY if wanted.has(form.row_of(event))]

    assert flat(reading.history(store.select, wanted)) == expected
    assert reading.newest(store.select, wanted, 3) == expected[-3:]
    assert bool(expected) == (wanted.cluster is None)


def test_one_event_and_the_chain_at_it_are_found_in_both(store):
    links = chain(GENESIS, HISTORY)
    places = (1, EVERY, EVERY + 1, 3 * EVERY, 3 * EVERY + 1, LAST)

    assert [reading.at(store.select, n) for n in places] == [(HISTORY[n - 1], links[n - 1]) for n in places]  # fmt: skip
    assert reading.at(store.select, LAST + 1) is None


def test_what_is_counted_is_counted_in_both(store):
    def counted(first, last):
        found = {}
        for event in HISTORY[first:last]:
            name = event.cluster, event.type
            found[name] = found.get(name, 0) + 1
        return found

    for first, last in ((0, LAST), (0, EVERY), (7, 8), (7, EVERY + 7), (50, 250)):
        assert reading.counts(store.select, after=first, until=last) == counted(first, last)
    assert reading.clusters(store.select) == {event.cluster for event in HISTORY}


def test_a_moment_is_the_same_event_before_and_after(whole, place, store, tmp_path):
    (untrimmed := tmp_path / "untrimmed").mkdir()
    made(untrimmed, trimmed=0)
    other = opened(untrimmed)
    moments = sorted({event.time_us + d for event in HISTORY for d in (-1, 0, 1)})[::7]
    with snapshot(store) as one, snapshot(other) as two:
        found = [sequence_before(one, moment) for moment in moments]
        expected = [sequence_before(two, moment) for moment in moments]

    assert found == expected
    other.close()


def test_rows_follow_from_both(store):
    with rebuild(MODEL, store) as rebuilt:
        compared = compare(store, rebuilt)
    discard(store)

    assert (compared.equal, compared.sequence) == (True, LAST)
    with snapshot(store) as connection:
        assert flat(archived(connection, 5, LAST - 1, 33)) == HISTORY[4 : LAST - 1]


def test_a_verification_counts_both_and_finds_nothing(place, store):
    found = verify(MODEL, store, keys=[Signer(place / "key").public_key])

    assert (found.ok, found.events, found.anchored_until) == (True, LAST, LAST)


def test_a_ledger_that_moves_takes_its_segments_along(whole, place, store):
    assert sealed(store.select)[0].where == str(place / "segments" / "segment-000000000001.zst")


def test_a_segment_is_unpacked_by_the_common_tool(place):
    file = (place / "segments" / "segment-000000000001.zst").read_bytes()
    unpacked = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    content = unpacked.decompress(file)

    assert len(msgspec.msgpack.decode(content)) == EVERY


def test_what_is_trimmed_between_two_looks_is_not_passed_over(place, store):
    """Each look of a question is a transaction of its own, and the ledger goes on meanwhile."""
    sealer, looks = sealer_of(place, store), []

    def select(query):
        rows = store.select(query)
        if "FROM events" in str(query):
            looks.append(query)
            sealer.trim(KEEP_US)
        return rows

    assert flat(reading.history(select, part=10)) == HISTORY
    assert trimmed_until(store.select) == SEGMENTS * EVERY
    assert len(looks) > 1


def test_nothing_is_trimmed_that_is_young(place, store):
    oldest = sealed(store.select)[3]
    times = sorted(event.time_us for event in HISTORY[oldest.first - 1 : oldest.last])
    age_us = sorted(event.time_us for event in HISTORY[-101:])[50] - times[len(times) // 2]

    assert sealer_of(place, store).trim(age_us + 1) is None
    assert sealer_of(place, store).trim(age_us).last == oldest.last


@pytest.mark.parametrize("ahead", [0, 3_650])
def test_a_clock_that_was_ahead_once_neither_trims_early_nor_stops_it(tmp_path, ahead):
    """An event a day for 400 days, one of which says that it is ten years later."""
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    days = [n + (ahead if n == 45 else 0) for n in range(400)]
    said = [given.node_observed("n", version=n + 1, at=day * 86_400) for n, day in enumerate(days)]
    fill(store, sequenced(said))
    sealer = sealer_of(tmp_path, store, every=20)
    while sealer.seal() is not None:
        pass
    while sealer.trim(90 * 86_400_000_000) is not None:
        pass

    # The middle of the last 101 events is of day 349, and of a segment's 20 the eleventh counts.
    assert trimmed_until(store.select) == 260
    store.close()


@pytest.mark.parametrize("damage", ["missing", "flipped", "another key"])
def test_what_is_not_sound_is_not_trimmed(place, store, damage):
    path = place / "segments" / "segment-000000000181.zst"
    signer = None
    if damage == "missing":
        path.unlink()
    elif damage == "flipped":
        path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:])
    else:
        head = sealed(store.select)[3].head
        forged = sign_segment_head(head, Signer(place / "other"))
        _, packed = form.parted(path.read_bytes())
        path.write_bytes(file := form.joined(forged, packed))
        with store.engine.begin() as connection:
            values = {"sha256": hashlib.sha256(file).digest(), "head": form.encode_head(forged)}
            connection.execute(segments.update().where(segments.c.first == 181).values(**values))
    before = table_has(store)

    with pytest.raises(DamagedSegmentError, match=r"segment-000000000181\.zst"):
        sealer_of(place, store, signer).trim(KEEP_US)
    assert table_has(store) == before


def test_a_missing_segment_stops_a_question_and_is_named(place, store):
    (place / "segments" / "segment-000000000061.zst").unlink()

    with pytest.raises(DamagedSegmentError, match=r"missing.*segment-000000000061\.zst"):
        flat(of_types(store.select, HISTORY[0].cluster, None))


def test_a_place_that_cannot_be_written_keeps_the_ledger_as_it_is(place, store):
    (place / "file").write_text("")
    sealer = sealer_of(place, store, every=10)
    sealer._place._folder = place / "file"

    with pytest.raises((SegmentPlaceError, LedgerError), match="file"):
        sealer.seal()
    assert findings(place) == ()


def test_segments_of_another_history_are_not_written_over(place, store, tmp_path):
    other = [msgspec.structs.replace(event, source="other") for event in HISTORY]
    with store.engine.begin() as connection:
        for table in (events, segments, *MODEL.tables, parked):
            connection.execute(table.delete())
        connection.execute(sa.text("DELETE FROM checkpoints"))
    fill(store, other)

    with pytest.raises(LedgerError, match="another history"):
        sealer_of(place, store).seal()


# kills


def step(folder):
    store = opened(folder)
    sealer = seal_all(folder, store)
    while sealer.trim(KEEP_US) is not None:
        pass
    store.close()


def killed(folder, label, time):
    """Seal and trim in a child that is killed when it comes to ``label`` for the ``time``-th time; whether it was."""
    child = os.fork()
    if child == 0:
        left = [time]

        def hook(name):
            left[0] -= name == label
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        crashpoints.install(hook)
        step(folder)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("time", [1, 3])
@pytest.mark.parametrize("label", [one for one in crashpoints.LABELS if one.startswith(("seal.", "trim."))])  # fmt: skip
def test_a_kill_at_any_label_loses_nothing(tmp_path, label, time):
    made(tmp_path, trimmed=0)
    store = opened(tmp_path)
    with store.engine.begin() as connection:
        connection.execute(segments.delete().where(segments.c.sequence > EVERY))
    store.close()
    for path in sorted((tmp_path / "segments").iterdir())[1:]:
        path.unlink()

    assert killed(tmp_path, label, time)
    store = opened(tmp_path)
    assert flat(reading.history(store.select)) == HISTORY
    assert findings(tmp_path) == ()

    step(tmp_path)
    assert trimmed_until(store.select) == SEGMENTS * EVERY
    assert flat(reading.history(store.select)) == HISTORY
    assert findings(tmp_path) == ()
    assert {path.name for path in (tmp_path / "segments").iterdir()} == {
        reading.file_name(first) for first in range(1, SEGMENTS * EVERY, EVERY)
    }
    store.close()


def test_a_head_with_any_byte_that_is_no_text_is_read_otherwise_or_is_damaged(place):
    """Names in it are texts, and msgspec says of those that are none what it says of no other damage."""
    file = sorted((place / "segments").glob("*.zst"))[0].read_bytes()
    size = int.from_bytes(file[4:8], "little")
    said, damaged = file[8 : 8 + size], 0
    for at in range(size):
        try:
            form.read_head(said[:at] + b"\xa2" + said[at + 1 :])
        except DamagedSegmentError:
            damaged += 1

    assert damaged > size // 2

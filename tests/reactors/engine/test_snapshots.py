"""A start from a snapshot and what came after it knows and decides what a start from the beginning would."""

import asyncio
import os
import random
import shutil
import signal
import sys
import types
from contextlib import AsyncExitStack

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from bus import crashpoints
from bus.memory import MemoryTransport
from projections.engine import snapshots as kept_snapshots
from projections.engine.parts import Part, shape
from projections.engine.snapshots import NEWEST, last, write
from projections.engine.store import Store, engine
from projections.engine.tables import events, snapshots
from reactors.catalogue import REACTORS
from reactors.engine import snapshots as writing
from reactors.engine.replica import Replica
from reactors.engine.runner import Runner
from reactors.engine.snapshots import Snapshots, at
from tests import factories as f
from tests.projections.worlds import events_of, worlds
from tests.reactors.engine.restoring import WRONG, archived_in, folded, known, readers_of, restored
from tests.reactors.engine.restoring import archive as archive_in
from tests.recording import recorded
from tests.scenario import Clock

DAY_US = 86_400_000_000


def sequenced(events):
    return [msgspec.structs.replace(event, sequence=n) for n, event in enumerate(events, 1)]


def whole(history):
    """The fold of a history from its beginning."""
    return folded(Replica(REACTORS, history[0].cluster), history, [], decides_on=lambda _: False)


def test_the_recording_broken_off_at_many_places_is_known_and_decided_alike():
    history = recorded()
    once, twice = [], []
    # Deciding costs ten times what folding does: on each fiftieth tick, and on those with which something was decided.
    triggers = {
        msgspec.json.decode(e.body)["trigger"] for e in history if e.type.startswith("decision.")
    }

    def decides_on(event):
        return event.sequence in triggers or not event.sequence % 50

    cuts = random.Random(7).sample(range(1, len(history)), 40)
    empty = [Replica(REACTORS, history[0].cluster) for _ in range(2)]
    expected = folded(empty[0], history, once, decides_on=decides_on)
    found = folded(empty[1], history, twice, decides_on=decides_on, cuts=cuts)

    assert once == twice
    assert len(once) >= 13
    assert known(expected) == known(found)


@settings(max_examples=40, deadline=None)
@given(world=worlds(strange=True), chance=st.randoms(use_true_random=False))
def test_a_random_history_broken_off_anywhere_is_known_alike(world, chance):
    history = sequenced(events_of(world))
    if not history:
        return
    cuts = chance.sample(range(1, len(history) + 1), min(4, len(history)))
    found = folded(Replica(REACTORS, history[0].cluster), history, [], cuts=cuts)

    assert known(whole(history)) == known(found)


def parts(part, seen):
    """A part and all parts in it."""
    if isinstance(part, dict | list):
        for one in part.values() if isinstance(part, dict) else part:
            parts(one, seen)
    elif isinstance(part, Part) and id(part) not in seen:
        seen[id(part)] = part
        parts([*vars(part).values()], seen)
    return [*seen.values()]


def test_every_attribute_of_a_part_is_saved_or_named_as_derived():
    """An attribute that somebody adds and forgets would be lost with each start."""
    forgotten = {
        f"{type(part).__name__}.{name}"
        for one in (whole(recorded()), readers_of(recorded()))
        for part in parts(one, {})
        for name in vars(part).keys() - {*part.derived} - {*part.Saved.__struct_fields__}
    }
    assert set() == forgotten


def test_another_shape_or_other_rules_are_another_version():
    versions = {Replica(REACTORS, "c").version}
    versions.add(Replica(REACTORS[1:], "c").version)
    other = msgspec.structs.replace(REACTORS[0], version=99)
    versions.add(Replica((other, *REACTORS[1:]), "c").version)

    assert 3 == len(versions)
    assert all("SavedCulling" in one for one in versions)


# in a ledger


@pytest.fixture(scope="module")
def history():
    """A part of the day with admissions in it."""
    return recorded()[:4_000]


@pytest.fixture(scope="module")
def archive(tmp_path_factory, history):
    return archived_in(tmp_path_factory.mktemp("archive") / "ledger.db", history)


@pytest.fixture
def store(tmp_path, archive):
    made = Store(engine(f"sqlite:///{shutil.copy(archive, tmp_path)}"))
    yield made
    made.close()


def snapshot(store, history, sequence):
    """What was known after an event, written as a process writes it."""
    replica = whole(history[:sequence])
    state = msgspec.msgpack.encode(replica.saved())
    return write(store, writing.reader_of(replica), sequence, state)


def begun(store, history, **options):
    """(where the archive was read from, what is known) of a start; where nothing comes after the snapshot, nothing is read."""
    first = []

    def select(query):
        text = str(query)
        if "FROM events" in text and "events.type IN" in text:
            found = query.compile().params
            first.append(min(value for name, value in found.items() if "sequence" in name))
        return store.select(query)

    replica = at(select, REACTORS, history[0].cluster, **options)
    return first[0] if first else replica.sequence, replica


def test_a_start_reads_only_what_came_after_the_newest_snapshot(store, history):
    assert snapshot(store, history, 1_000)
    assert snapshot(store, history, 3_000)

    after, replica = begun(store, history)

    assert 3_000 == after
    assert known(whole(history)) == known(replica)


@pytest.mark.parametrize("sequence", [1, 999, 1_000, 1_001, 2_999, 4_000, 9_999])
def test_any_place_is_the_nearest_snapshot_before_it_and_the_archive_after(
    store, history, sequence
):
    for place in (1_000, 3_000):
        snapshot(store, history, place)

    after, replica = begun(store, history, sequence=sequence)

    assert after == max(place for place in (0, 1_000, 3_000) if place <= sequence)
    assert known(whole(history[:sequence])) == known(replica)


@pytest.mark.postgres
def test_it_is_the_same_on_postgresql(postgres_url, history):
    made = Store(engine(postgres_url))
    archive_in(made, history[:500])
    assert snapshot(made, history, 300)
    assert snapshot(made, history, 400)

    after, replica = begun(made, history[:500])

    assert 400 == after
    assert known(whole(history[:500])) == known(replica)
    made.close()


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_snapshot_is_passed_over(store, history, wrong):
    snapshot(store, history, 3_000)
    with store.engine.begin() as connection:
        connection.execute(WRONG[wrong])

    after, replica = begun(store, history)

    assert 0 == after
    assert known(whole(history)) == known(replica)


def test_one_that_this_program_cannot_read_is_passed_over_for_an_older_one(store, history):
    snapshot(store, history, 1_000)
    reader = writing.reader_of(Replica(REACTORS, history[0].cluster))
    write(store, reader, 3_000, msgspec.msgpack.encode({"sequence": "none"}))

    after, replica = begun(store, history)

    assert 1_000 == after
    assert known(whole(history)) == known(replica)


def test_what_the_archive_has_not_yet_is_not_written(store, history):
    reader = writing.reader_of(Replica(REACTORS, history[0].cluster))

    assert not write(store, reader, len(history) + 1, b"")
    assert 0 == last(store.select, reader)


def test_the_newest_are_kept_and_then_one_a_day(store, history, monkeypatch):
    monkeypatch.setattr(kept_snapshots, "DAYS", 4)
    reader = writing.reader_of(Replica(REACTORS, history[0].cluster))
    times = {n: n * DAY_US // 3 for n in range(1, 31)}
    with store.engine.begin() as connection:
        for sequence, time_us in times.items():
            place = events.c.sequence == sequence
            connection.execute(events.update().where(place).values(time_us=time_us))
    for sequence in times:
        write(store, reader, sequence, b"")

    kept = sorted(row[0] for row in store.select(sa.select(snapshots.c.sequence)))

    assert [28, 29, 30] == kept[-NEWEST:]
    days = [times[sequence] // DAY_US for sequence in kept[:-NEWEST]]
    assert 4 == len(days) == len(set(days))


LABELS = [one for one in crashpoints.LABELS if one.startswith("snapshot.")]


@pytest.mark.parametrize("label", LABELS)
def test_killed_while_one_is_written_the_next_start_knows_the_same(store, history, label):
    snapshot(store, history, 1_000)
    store.engine.dispose()
    child = os.fork()
    if child == 0:
        crashpoints.install(lambda hit: os.kill(os.getpid(), signal.SIGKILL * (hit == label)))
        snapshot(store, history, 3_000)
        os._exit(0)
    _, status = os.waitpid(child, 0)

    after, replica = begun(store, history)

    assert os.WIFSIGNALED(status)
    assert after == (3_000 if label == "snapshot.after_commit" else 1_000)
    assert known(whole(history)) == known(replica)


# live


async def followed(store, history, replica, *, ends=True):
    """A runner that read a history after what its replica knows, and the sequences that it asked the bus for."""
    transport = MemoryTransport()
    transport.events = list(history)
    asked, read = [], transport.read

    def reading(*, after, **options):
        asked.append(after)
        return read(after=after, **options)

    transport.read = reading
    written = Snapshots(store, replica)
    runner = Runner(replica, transport, Clock(), {}, written)
    task = asyncio.create_task(runner.follow())
    while not asked:
        await asyncio.sleep(0)
    await runner.reached(len(history))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if ends:
        await written.end()
    return asked


async def test_a_clean_end_leaves_a_snapshot_and_the_next_start_reads_the_bus_after_it(
    store, history
):
    cluster = history[0].cluster
    assert [0] == await followed(store, history, Replica(REACTORS, cluster))

    after, replica = begun(store, history)
    assert len(history) == after
    assert [len(history)] == await followed(store, history, replica)


async def test_many_events_later_another_one_is_written(store, history, monkeypatch):
    monkeypatch.setattr(writing, "EVERY", 1_000)
    replica = Replica(REACTORS, history[0].cluster)
    await followed(store, history, replica, ends=False)
    writing_it = [task for task in asyncio.all_tasks() if task.get_name() == "snapshot-writer"]
    await asyncio.gather(*writing_it)

    assert 1_000 <= last(store.select, writing.reader_of(replica))


async def test_after_an_error_none_is_written(store, history):
    """What was being folded when it came may be half in the state."""
    replica = whole(history)
    with pytest.raises(ZeroDivisionError):
        async with AsyncExitStack() as stack:
            stack.push_async_exit(Snapshots(store, replica).end)
            raise ZeroDivisionError

    assert 0 == last(store.select, writing.reader_of(replica))


async def test_an_amount_that_no_node_has_does_not_keep_a_snapshot_from_being_written(
    store, history
):
    absurd = {"containers": [{"requests": {"cpu": "9223372036854775"}}] * 3}
    resources = msgspec.Raw(msgspec.json.encode(absurd))
    pod = f.pod_observed("absurd", cluster=history[0].cluster, resources=resources)
    replica = whole(history)
    replica.apply(msgspec.structs.replace(pod, sequence=len(history)))
    await Snapshots(store, replica).end()

    assert len(history) == last(store.select, writing.reader_of(replica))


@pytest.mark.parametrize("state", [b"", b"no frame", msgspec.msgpack.encode([1]), b"\xc1"])
def test_one_whose_digest_was_made_anew_over_something_else_is_passed_over(store, history, state):
    snapshot(store, history, 1_000)
    write(store, writing.reader_of(Replica(REACTORS, history[0].cluster)), 3_000, state)

    assert 1_000 == begun(store, history)[0]


def test_a_wrong_one_with_a_high_sequence_does_not_keep_others_from_being_written(store, history):
    snapshot(store, history, 3_000)
    with store.engine.begin() as connection:
        connection.execute(snapshots.update().values(chain=b"other"))

    assert 0 == last(store.select, writing.reader_of(Replica(REACTORS, history[0].cluster)))


async def test_none_is_written_while_an_own_decision_is_still_to_be_read(store, history):
    replica = whole(history)
    tick = next(event for event in recorded() if event.type.startswith("decision."))
    replica.made([tick])
    written = Snapshots(store, replica)
    await written.end()

    assert not replica.is_pure
    assert 0 == last(store.select, writing.reader_of(replica))


async def test_one_that_the_ledger_lags_behind_is_left_out_at_the_end(store, history, monkeypatch):
    monkeypatch.setattr(writing, "END_SECONDS", 0.0)
    replica = whole([*history, msgspec.structs.replace(f.pod_observed("late"), sequence=4_001)])
    written = Snapshots(store, replica)
    await written.end()

    assert 0 == last(store.select, writing.reader_of(replica))
    assert known(replica) == known(restored(replica))


async def test_a_ledger_that_stands_still_does_not_hold_up_the_end(store, history, monkeypatch):
    monkeypatch.setattr(writing, "END_SECONDS", 0.0)
    monkeypatch.setattr(writing, "EVERY", 1)
    written = Snapshots(store, whole([*history, *sequenced([f.pod_observed("late")] * 4_001)[-1:]]))
    written.offer()
    await written.end()

    assert 0 == last(store.select, writing.reader_of(whole(history)))


def test_what_is_saved_has_another_shape_with_another_name_type_or_alias_anywhere_below():
    def made(**changed):
        module = types.ModuleType("saved")
        sys.modules[module.__name__] = module
        said = {"kind": "Literal['a', 'b']", "name": "number", "type": "int", "encoded": "None"}
        source = """
from __future__ import annotations
from typing import ClassVar, Literal
import msgspec
Kind = {kind}
class Inner(msgspec.Struct, rename={encoded}):
    {name}: {type}
    kind: Kind
Inners = tuple[Inner, ...]
class Saved(msgspec.Struct):
    wire: ClassVar[int] = 1
    inners: dict[str, Inners]
"""
        exec(source.format(**said | changed), vars(module))
        return shape(module.Saved)

    plain = made()
    assert made() == plain
    others = [
        made(kind="Literal['a']"), made(name="count"), made(type="int | None"), made(encoded="'upper'"),
    ]  # fmt: skip
    assert 5 == len({plain, *others})

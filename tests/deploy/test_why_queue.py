"""`bursar why` on workloads that waited: held on which numbers, moved by whom, let go by what."""

import json

import msgspec
import pytest

from bus.events.admissions import Meter, TreeMetered
from deploy.queries.queues import explanations
from projections.engine import snapshots, tables
from projections.engine.snapshots import write
from projections.engine.store import Store, engine
from projections.quota_trees.queries import archived
from reactors.engine.snapshots import reader_of
from reactors.queue import releasing
from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.engine.restoring import readers_of
from tests.reactors.queue.jobs import Jobs
from tests.reactors.queue.settling import quiet, until
from tests.simulation.loop import simulate


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releasing, "APART_SECONDS", 0.0)
        patch.setattr(releasing, "TICK_SECONDS", 0.02)
        events = simulate(lived())
    return make_ledger(tmp_path_factory.mktemp("why"), events)


async def lived():
    """``next`` is moved ahead and waits for ``first`` to end, ``wide`` for a higher limit; ``back`` passed it, and waits again."""
    async with Jobs() as cluster:
        await cluster.see_team(4, delay=60)
        await cluster.create("first", 3)
        await until(lambda: cluster.running() == ["first"])
        cluster.clock.after(10)
        await cluster.create("wide", 6)
        await cluster.create("back", 1)
        await until(lambda: cluster.running() == ["back", "first"])
        cluster.clock.after(1)
        await cluster.create("next", 3)
        await quiet(cluster)
        await cluster.order(cluster.uid("next"), "move", 1000, reason="paper")
        await quiet(cluster)
        cluster.clock.after(62)
        await cluster.delete("first")
        await until(lambda: cluster.running() == ["back", "next"])
        await quiet(cluster)
        cluster.clock.after(5)
        await cluster.see_team(9, delay=60)
        await until(lambda: cluster.running() == ["next", "wide"])
        await quiet(cluster)
        await cluster.create("last", 9)
        await quiet(cluster)
        return list(cluster.transport.events)


@pytest.fixture
def told(capsys, data):
    def ask(*arguments, data=data):
        assert bursar(*arguments, "--data", data, "-o", "json") == 0
        return json.loads(capsys.readouterr().out)

    return ask


def short(steps):
    """Steps and reasons, without what any governed object is told of."""
    plain = ("seen", "gone")
    return [
        (s["step"], s["reason"]) for s in steps if s["step"] not in plain and s["reason"] != "fewer"
    ]


def one(steps, step):
    return next(s for s in steps if s["step"] == step)


def test_why_tells_who_was_held_moved_and_released_by_what(told):
    steps = told("why", "ns/next")

    assert short(steps) == [
        ("held", "over-quota"),
        ("move", "paper"),
        ("room", "usage-fell"),
        ("admitted", "released"),
        ("started", ""),
    ]
    assert one(steps, "held")["numbers"] == (
        "created suspended at 2026-01-01T00:00:11Z; place 2; limits.cpu: 4 used + 3 asked > 4"
    )
    assert one(steps, "move")["numbers"] == "by ada, to priority 1000; place 2, now place 1"
    room = one(steps, "room")
    assert room["numbers"] == (
        "given back by ns/first (vanished); until then limits.cpu: 4 used + 3 asked > 4"
    )
    cause = f"because of event {room['sequence']}, usage-fell"
    assert one(steps, "admitted")["numbers"].endswith(cause)


def test_why_tells_what_had_to_wait_again(told):
    steps = told("why", "ns/back")

    assert short(steps) == [
        ("held", "fits"),
        ("admitted", "released"),
        ("started", ""),
        ("stop", "returning"),
        ("held", "returned"),
        ("stopped", "returned"),
        ("full", "over-quota"),
        ("waits", "over-quota"),
    ]
    assert "before ns/wide, which waits; there was room" in one(steps, "admitted")["numbers"]
    assert one(steps, "waits")["numbers"] == (
        "for 1m 08s; place 1; limits.cpu: 9 used + 1 asked > 9"
    )


def test_why_of_what_never_started_tells_what_it_waits_for(told):
    assert short(told("why", "ns/last")) == [("held", "over-quota"), ("waits", "over-quota")]


def test_why_takes_the_ids_that_the_queue_shows(told):
    by_name = told("why", "ns/next")
    (row,) = [row for row in told("queue", "show") if row["name"] == "last"]

    assert by_name == told("why", uid_of(by_name, told))
    assert told("why", "ns/last") == told("why", row["uid"])


def uid_of(steps, told):
    query = f"SELECT uid FROM v1_admissions WHERE id = '{one(steps, 'admitted')['id']}'"
    return told("sql", query)[0]["uid"]


def test_why_of_a_release_tells_the_whole_story(told):
    steps = told("why", "ns/next")
    id = one(steps, "admitted")["id"]

    assert id.startswith("c1/queue/")
    assert short(steps) == short(told("why", id))


def test_why_of_a_decision_to_wait_again_tells_of_whom(told):
    steps = told("why", "ns/back")
    query = f"SELECT id FROM v1_events WHERE sequence = {one(steps, 'stop')['sequence']}"
    id = told("sql", query)[0]["id"]

    assert ("held", "returned") in short(told("why", id))


def test_people_are_told_how_to_ask_why(capsys, data):
    assert bursar("queue", "show", "--data", data) == 0
    out = capsys.readouterr().out

    assert "bursar why WORKLOAD" in out


async def raised():
    """One waits until the limit rises, one until its budget has more, one until its period is over."""
    async with Jobs() as cluster:
        await cluster.see_team(4)
        await cluster.create("wide", 6)
        await quiet(cluster)
        await cluster.see_team(9)
        await until(lambda: cluster.running() == ["wide"])
        await cluster.see_team(4, name="paid", cash={"limits.cpu": 100})
        now_s = cluster.clock.us // 10**6

        async def spent(amount):
            meter = Meter("paid", "limits.cpu", amount, 0, now_s, resets_s=now_s + 60)
            tree = cluster.admission.journals.tree("biz/paid")
            await cluster.admission.keeper.say(
                tree, lambda draft: TreeMetered(number=draft.number, meters=(meter,))
            )

        await spent(100)
        await cluster.create("credited", quota="paid")
        await quiet(cluster)
        await spent(50)
        await until(lambda: "credited" in cluster.running())
        await spent(100)
        await cluster.create("later", quota="paid")
        await quiet(cluster)
        cluster.clock.after(60)
        await until(lambda: "later" in cluster.running())
        await quiet(cluster)
        return list(cluster.transport.events)


@pytest.mark.parametrize(
    ("name", "held", "cause"),
    [
        ("wide", "over-quota", "limit-rose"),
        ("credited", "budget-exhausted", "budget-renewed"),
        ("later", "budget-exhausted", "period-began"),
    ],
)
def test_why_names_what_made_room(told, tmp_path, monkeypatch, name, held, cause):
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    steps = told("why", f"ns/{name}", data=make_ledger(tmp_path, simulate(raised())))

    assert one(steps, "held")["reason"] == held
    assert one(steps, "admitted")["numbers"].endswith(cause)


def test_a_story_from_a_snapshot_is_the_one_from_the_beginning(data):
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    history = [event for part in archived(store.select, "c1", None, apart=False) for event in part]
    now_us = history[-1].time_us
    uids = {event.key for event in history if event.type == "workload.observed"}
    read_after = []

    def select(query):
        found = query.compile().params
        if "FROM events" in str(query) and "type_1" in found:
            read_after.append(found["sequence_1"])
        return store.select(query)

    def told():
        return [explanations(select, "c1", {uid}, now_us) for uid in sorted(uids)]

    before = told()
    readers = readers_of([], cluster="c1")
    kept = []
    for event in history:
        readers.journals.apply([event])
        kept.append((event.sequence, msgspec.msgpack.encode(readers.saved())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "NEWEST", len(kept))
        for sequence, state in kept:
            assert write(store, reader_of(readers), sequence, state)
    read_after.clear()
    after = told()
    with store.engine.begin() as connection:
        connection.execute(tables.snapshots.delete())
    store.close()

    assert before == after
    assert 5 == len(uids)
    # One snapshot before the first event that names the workload.
    assert sorted(read_after) == sorted(
        next(event.sequence for event in history if event.key == uid) - 1 for uid in uids
    )

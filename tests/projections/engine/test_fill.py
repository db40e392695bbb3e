"""New or changed parts of the model are filled from the archive beside a ledger that goes on, and then join it."""

import asyncio

import pytest
import sqlalchemy as sa

from bus import crashpoints
from bus.memory import MemoryTransport
from bus.waiting import ended
from projections.catalogue import MODEL
from projections.engine import fill as filling
from projections.engine.checkpoint import lacking
from projections.engine.dump import digest
from projections.engine.fill import Fill
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.nodes import nodes
from projections.pod_runs.derivation import derivation
from projections.usage import usage_hours
from tests.projections.engine.archives import ledger, lives

pytestmark = pytest.mark.simulated

LIVES = lives(40)
#: The version of the rules of pods.
RUNS = derivation.version
EARLIER = len(LIVES) * 9 // 10


@pytest.fixture
def right(tmp_path):
    """The digest of a ledger that was folded by this program from the first event on."""
    made = ledger(f"sqlite:///{tmp_path / 'right.db'}")
    play(made, LIVES)
    found = digest(MODEL, made)
    made.close()
    return found


def play(store, events):
    """The history ``events`` into the ledger, by a runner that goes on where the ledger is."""

    async def run():
        transport = MemoryTransport()
        await transport.publish(events)
        runner = Runner(store, Folder(MODEL, store), transport, batch=50)
        await runner.run(live=False)
        return runner

    return asyncio.run(run())


def older(store, *parts):
    """The ledger as an older program left it: these parts by other rules, their sums wrong."""
    version = MODEL.version
    for part in parts:
        name, _, number = part.partition("=")
        version = version.replace(part, f"{name}={int(number) - 1}")
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE checkpoints SET version = :v"), {"v": version})
        connection.execute(sa.text("UPDATE usage_hours SET pods = 77"))


def version(store):
    return store.checkpoint(MODEL.version).version


@pytest.mark.parametrize(
    "parts",
    [("usage=2",), (f"pod_runs={RUNS}",), ("namespaces=4", "waits=2"), ("usage=2", "budgets=2")],
)
def test_what_changed_is_filled_and_joins_while_the_rest_goes_on(store, right, parts):
    play(store, LIVES[:EARLIER])
    older(store, *parts)

    runner = play(store, LIVES)

    assert (version(store), runner.filled) == (MODEL.version, None)
    assert digest(MODEL, store) == right


def test_a_ledger_of_unknown_rules_is_filled_whole(store, right):
    play(store, LIVES[:EARLIER])
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE checkpoints SET version = '3-1-4'"))

    play(store, LIVES)

    assert digest(MODEL, store) == right


class _Crash(BaseException):
    pass


def crash_at(label, count=1):
    left = [count]

    def hook(reached):
        left[0] -= reached == label
        if reached == label and not left[0]:
            raise _Crash

    crashpoints.install(hook)


@pytest.mark.parametrize("label", ["fill.before_join", "fill.after_join"])
def test_the_old_rows_stay_until_all_are_put_in_place_at_once(store, right, label):
    play(store, LIVES[:EARLIER])
    older(store, f"pod_runs={RUNS}")
    crash_at(label)
    try:
        with pytest.raises(_Crash):
            play(store, LIVES)
    finally:
        crashpoints.install(None)

    is_joined = label == "fill.after_join"
    counts = {row[0] for row in store.select(sa.select(usage_hours.c.pods))}
    assert (version(store) == MODEL.version, counts != {77}) == (is_joined, is_joined)
    assert store.select(sa.select(sa.func.count()).select_from(nodes))[0][0] > 0

    play(store, LIVES)
    assert digest(MODEL, store) == right


def test_what_was_filled_is_not_filled_again(store, monkeypatch):
    monkeypatch.setattr(filling, "STEP", 30)
    play(store, LIVES)
    older(store, "usage=2")
    first = Fill(MODEL, store)
    first.advance()
    first.close()

    again = Fill(MODEL, store)

    assert (again.done.parts, again.done.sequence) == (("usage",), 30)
    again.close()


def test_a_place_that_other_rules_filled_is_emptied(store):
    play(store, LIVES)
    older(store, "usage=2")
    first = Fill(MODEL, store)
    first.advance()
    first.close()
    older(store, "waits=2")

    again = Fill(MODEL, store)

    assert (again.done.parts, again.done.sequence) == (("waits",), 0)
    again.close()


def test_a_part_is_current_only_where_all_that_it_needs_is():
    older_one = MODEL.version.replace("evidence=1", "evidence=0")
    missing = MODEL.missing(older_one)

    assert {part.name for part in missing.parts} == {"evidence", "budgets"}
    assert {part.name for part in MODEL.with_needs(missing).parts} == {
        "evidence", "budgets", "quotas"
    }  # fmt: skip
    assert MODEL.current(MODEL.version) == MODEL


async def live(store, transport, *, until):
    """A runner that follows the history while it fills, until ``until(runner)``."""
    runner = Runner(store, Folder(MODEL, store), transport, batch=20)
    running = asyncio.create_task(runner.run())
    async with asyncio.timeout(20):
        while not (running.done() or until(runner)):
            await asyncio.sleep(0.01)
    await ended(running)
    return running


async def test_what_is_said_while_it_is_filled_is_in_it(tmp_path, right, monkeypatch):
    monkeypatch.setattr(filling, "STEP", 10)
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    transport = MemoryTransport()
    await transport.publish(LIVES[:EARLIER])
    await Runner(store, Folder(MODEL, store), transport).run(live=False)
    older(store, f"pod_runs={RUNS}")
    seen = []

    def until(runner):
        seen.append(runner.filled is not None)
        return runner.filled is None and runner.checkpoint.sequence == len(LIVES)

    said = asyncio.create_task(transport.publish(LIVES[EARLIER:]))
    await live(store, transport, until=until)
    await said

    assert (True in seen, version(store), digest(MODEL, store)) == (True, MODEL.version, right)
    store.close()


async def test_a_fill_that_is_ended_goes_on_where_it_was(store, right, monkeypatch):
    """As SIGTERM ends a short command. The next one tells from where it goes on."""
    monkeypatch.setattr(filling, "STEP", 30)
    transport = MemoryTransport()
    await transport.publish(LIVES)
    await Runner(store, Folder(MODEL, store), transport).run(live=False)
    older(store, f"pod_runs={RUNS}")
    first, then = [], []

    def end(done, of):
        first.append((done, of))
        working.cancel()

    working = asyncio.create_task(filling.fill_ledger(MODEL, store, end))
    with pytest.raises(asyncio.CancelledError):
        await working
    ended_at = lacking(version(store))
    await filling.fill_ledger(MODEL, store, lambda done, of: then.append((done, of)))

    # The step that was under way was done to its end, 60.
    assert (first, then[0]) == ([(30, len(LIVES))], (90, len(LIVES)))
    assert ended_at["pod_runs"] == len(LIVES)
    assert (version(store), digest(MODEL, store)) == (MODEL.version, right)


async def test_what_goes_wrong_while_it_is_filled_ends_the_runner(tmp_path, monkeypatch):
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    transport = MemoryTransport()
    await transport.publish(LIVES)
    await Runner(store, Folder(MODEL, store), transport).run(live=False)
    older(store, f"pod_runs={RUNS}")
    with store.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM events WHERE sequence = 5"))

    running = await live(store, transport, until=lambda _: False)

    assert "gap" in str(running.exception())
    store.close()

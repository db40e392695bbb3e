"""What the one that works queues off remembers, and what it tells: nothing of what is gone, and nothing twice."""

import asyncio
import itertools

import pytest

from bus.clock import SECOND_US
from bus.events.quotas import Queue
from bus.memory import MemoryTransport
from projections.quota_trees import TreeOverlay
from reactors.queue import plan, releasing
from reactors.queue.decide import decide_releases, decide_returns
from reactors.queue.metrics import figures
from reactors.queue.outlook import outlooks
from reactors.queue.shape import Running, WaitingWorkload
from tests.quota_trees import CPU, Books, request
from tests.reactors.queue.jobs import Jobs
from tests.reactors.queue.settling import differences_of, quiet, until
from tests.scraping import scraped

pytestmark = pytest.mark.simulated


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)


def remembered(lines):
    """What is kept by uid: names of the parts that are not empty."""
    kept = {name: one for name, one in vars(lines).items() if isinstance(one, dict | set)}
    return sorted(name for name, one in kept.items() if one and name != "waits")


async def test_nothing_is_kept_of_what_is_gone():
    async with Jobs() as cluster:
        await cluster.see_team(4, delay=1)
        for name in ("a", "b", "c"):
            await cluster.create(name, 2)
        await cluster.order(cluster.uid("a"), "move", 7)
        await cluster.order(cluster.uid("c"), "hold")
        await until(lambda: cluster.running() == ["a", "b"])
        await quiet(cluster)
        for name in ("a", "b", "c"):
            await cluster.delete(name)
        await quiet(cluster)

        assert [] == remembered(cluster.admission.releasing.lines)


async def test_the_window_is_one_for_all_trees(monkeypatch):
    monkeypatch.setattr(plan, "WINDOW", 2)
    async with Jobs() as cluster:
        for team in ("blue", "red", "team"):
            await cluster.see_team(4, name=team)
        await asyncio.gather(
            *(cluster.create(f"{team}-{n}", quota=team) for team in ("blue", "red") for n in (1, 2))
        )
        await quiet(cluster)
        assert 2 == len(cluster.running())
        for name in cluster.running():
            await cluster.bind(name)
        await until(lambda: len(cluster.running()) == 4)

        assert [] == differences_of(cluster)


class Late(MemoryTransport):
    """Its readers get everything a moment late."""

    async def read(self, **options):
        async for events in super().read(**options):
            await asyncio.sleep(0.1)
            yield events


async def test_a_look_knows_what_the_one_before_it_released(monkeypatch):
    """However late the reader is, no more start at a time than controllers start."""
    monkeypatch.setattr(plan, "WINDOW", 1)
    async with Jobs(Late()) as cluster:
        await cluster.see_team(4)
        for name in ("a", "b", "c"):
            await cluster.create(name)
        await until(lambda: cluster.running() == ["a"])
        await asyncio.sleep(0.5)

        assert ["a"] == cluster.released()


async def test_a_wait_is_counted_once_though_one_has_to_wait_again():
    async with Jobs() as cluster:
        await cluster.see_team(4, delay=60)
        await cluster.create("first", 3)
        await until(lambda: cluster.running() == ["first"])
        cluster.clock.after(1)
        await cluster.create("head", 4)
        await cluster.create("small", 1)
        await until(lambda: cluster.running() == ["first", "small"])
        await cluster.delete("first")
        cluster.clock.after(61)
        await until(lambda: cluster.running() == ["head"])
        lines = cluster.admission.releasing.lines
        await until(lambda: lines.returned)
        assert scraped(figures(lines))['bursar_queue_length{quota="team"}'] == 1
        await cluster.delete("head")
        await until(lambda: cluster.running() == ["small"])
        await quiet(cluster)
        found = scraped(figures(lines))

        assert ["first", "small", "head", "small"] == cluster.released()
        assert found['bursar_queue_wait_seconds_count{quota="team"}'] == 3
        assert 'bursar_queue_length{quota="team"}' not in found


def books(*, hard=4, **fields):
    found = Books()
    found.show_quota(hard=hard, **fields)
    return found


def waiting(uid, cpu, created=0, priority=0, **fields):
    return WaitingWorkload(request(uid, cpu, **fields), priority, created * SECOND_US)


def test_one_that_may_never_come_does_not_keep_the_head_from_getting_its_room_back():
    """Its namespace may not use the quota any more: it waits for a person, and keeps nobody waiting."""
    one = books(namespaces=("ns",))
    queue = Queue(True, "BackFill", 60)
    one.ask("first", 3)
    stranger = waiting("stranger", 1, priority=9, namespace="elsewhere")
    head = waiting("head", 4)
    line = [stranger, head, waiting("small", 1, created=1)]
    (small,) = decide_releases(TreeOverlay(one.tree), line, queue, (), SECOND_US)
    assert ("small", "head") == (small.uid, small.passed)
    one.store(small)
    one.show("first", is_gone=True)
    running = [Running("small", {CPU: 1}, None, "head")]

    told = decide_returns(TreeOverlay(one.tree), [stranger, head], queue, running, 61 * SECOND_US)
    assert ["small"] == told


def test_no_end_of_what_runs_is_told_for_the_start_of_one_that_waits_for_its_budget():
    one = books(cash={CPU: 100})
    one.meter(spent=100)
    (told,) = outlooks(one.tree, [waiting("a", 1)], [Running("b", {CPU: 1}, 50)], SECOND_US)

    assert ("budget-exhausted", None) == (told.answer.reason, told.starts_us)


def test_what_runs_beyond_its_deadline_ends_now_at_the_earliest():
    one = books()
    one.ask("first", 4)
    running = [Running("first", {CPU: 4}, 50 * SECOND_US)]
    (told,) = outlooks(one.tree, [waiting("a", 1)], running, 80 * SECOND_US)

    assert 80 * SECOND_US == told.starts_us


async def test_a_look_that_takes_long_is_followed_by_a_rest_of_three_times_as_long(monkeypatch):
    """Reviews are answered by the same process meanwhile."""
    looks = []
    async with Jobs() as cluster:

        def slow(*args, **options):
            looks.append(asyncio.get_running_loop().time())
            cluster.clock.after(2)
            return plan.decided(*args, **options)

        await cluster.see_team(1)
        monkeypatch.setattr(releasing, "decided", slow)
        for name in ("a", "b", "c"):
            await cluster.create(name)
            await asyncio.sleep(1)
        await until(lambda: cluster.running() == ["a"])
        await asyncio.sleep(20)
    rests = [after - before for before, after in itertools.pairwise(looks)]

    assert len(rests) > 2
    assert min(rests) >= 6

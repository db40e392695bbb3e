"""How many are released before the first pods of others are there: the window follows the pace at which workloads start."""

from functools import partial

import pytest

from reactors.queue import plan, releasing, starts
from tests.reactors.queue.jobs import Jobs
from tests.reactors.queue.settling import differences_of, quiet, until

pytestmark = pytest.mark.simulated

NAMES = "abcdefghij"
START_SECONDS, LATE_SECONDS = starts.START_US / 1_000_000 + 1, starts.LATE_US / 1_000_000 + 1


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)
    monkeypatch.setattr(plan, "WINDOW", 2)


@pytest.fixture
async def cluster():
    """Ten Jobs wait in a quota that has room for all."""
    async with Jobs() as running:
        await running.see_team(10)
        for name in NAMES:
            await running.create(name)
        await until(lambda: running.running() == ["a", "b"])
        yield running


async def begin(cluster, names, phase="Running"):
    for name in names:
        await cluster.bind(name, phase)
    await quiet(cluster)


async def test_the_window_follows_the_starts_of_the_last_second(cluster):
    await begin(cluster, "ab")
    assert list("abcd") == cluster.running()
    await begin(cluster, "cd")
    assert list("abcdefgh") == cluster.running()
    cluster.clock.after(1)
    await begin(cluster, "efg")

    # Of three starts within the second, one is in flight already.
    assert list(NAMES) == cluster.running()
    windows = [d["basis"]["window"] for d in cluster.said("decided") if d["reason"] == "released"]
    assert (2, 4) == (min(windows), max(windows))
    assert [] == differences_of(cluster)


@pytest.mark.parametrize("phase", ["", "Pending", "Unknown"])
async def test_pods_that_no_kubelet_starts_make_no_pace(cluster, phase):
    await begin(cluster, "ab", phase)
    await begin(cluster, "cd", phase)

    assert list("abcdef") == cluster.running()
    await begin(cluster, "cd", "Failed")
    assert 2 == cluster.admission.releasing.lines.starts.pace(cluster.clock.us)
    assert [] == differences_of(cluster)


@pytest.mark.parametrize("seconds", [-3600, 3600])
async def test_stamps_of_another_clock_make_no_pace(cluster, seconds):
    cluster.clock.after(seconds)
    await begin(cluster, "ab")
    cluster.clock.after(-seconds)
    await begin(cluster, "")

    assert 0 == cluster.admission.releasing.lines.starts.pace(cluster.clock.us)
    assert [] == differences_of(cluster)


async def test_a_quota_whose_releases_start_nothing_waits_and_others_go_on(cluster):
    """Of `team` two are late, and no more come until a minute has passed; `other` waits for nobody."""
    cluster.clock.after(START_SECONDS)
    await quiet(cluster)
    assert ["a", "b"] == cluster.running()
    await cluster.see_team(4, name="other")
    for name in ("x", "y", "z"):
        await cluster.create(name, quota="other")
    await until(lambda: cluster.running() == ["a", "b", "x", "y"])
    await begin(cluster, "xy")
    assert ["a", "b", "x", "y", "z"] == cluster.running()

    cluster.clock.after(LATE_SECONDS)
    await until(lambda: cluster.running() == ["a", "b", "c", "d", "x", "y", "z"])
    assert [] == differences_of(cluster)


async def test_one_late_start_that_comes_makes_room_for_one(cluster):
    cluster.clock.after(START_SECONDS)
    await begin(cluster, "a", "Pending")

    assert ["a", "b", "c"] == cluster.running()
    await cluster.delete("b")
    await until(lambda: cluster.running() == ["a", "c", "d"])
    assert [] == differences_of(cluster)


async def test_releases_of_a_fixed_window_are_derived_as_they_were_decided(monkeypatch):
    """Older histories record no window."""
    monkeypatch.setattr(releasing, "decided", partial(plan.decided, is_paced=False))
    async with Jobs() as cluster:
        await cluster.see_team(10)
        for name in NAMES:
            await cluster.create(name)
        await quiet(cluster)
        await begin(cluster, "ab")
        await begin(cluster, "cd")
        cluster.clock.after(START_SECONDS)
        await quiet(cluster)

        assert list("abcdefgh") == cluster.running()
        assert [] == differences_of(cluster)

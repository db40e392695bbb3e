"""Held, ordered, released: the whole way of a Job, through the product's own webhooks, in memory."""

import asyncio
import copy
import re

import msgspec
import pytest

from bus import crashpoints
from bus.errors import ClusterUnavailableError, PermissionDeniedError
from bus.events.admissions import Meter, TreeMetered
from bus.events.pods import Owner
from bus.events.quotas import Serves
from reactors.queue import releasing
from reactors.queue.metrics import figures
from tests.reactors.queue.jobs import Jobs, manifest
from tests.reactors.queue.settling import checked, differences_of, quiet, until
from tests.scraping import scraped

pytestmark = pytest.mark.simulated


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)


@pytest.fixture
async def cluster():
    async with Jobs() as running:
        await running.see_team(4)
        yield running


async def test_a_job_is_created_suspended_charged_with_nothing_and_started_by_the_queue(cluster):
    answer = await cluster.create("a", 3)

    assert (True, "held") == (answer.allowed, answer.reason)
    assert cluster.is_suspended("a")
    await until(lambda: cluster.running() == ["a"])
    await quiet(cluster)
    assert cluster.used() == 3000
    assert (
        "annotations" not in cluster.objects["a"]["metadata"]
        or not (cluster.objects["a"]["metadata"]["annotations"])
    )
    assert cluster.patches == 1


async def test_a_status_that_a_user_writes_at_the_create_passes_no_queue(cluster):
    """The API server shows it to mutating webhooks, and drops it afterwards."""
    ended = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    review = cluster._review({**manifest("a", 3), "status": ended}, None, "CREATE")

    assert b'"/spec/suspend"' in (await cluster.hold(review)).patch


async def test_what_does_not_fit_waits_and_starts_the_moment_usage_falls(cluster):
    await cluster.create("a", 3)
    await until(lambda: cluster.running() == ["a"])
    answer = await cluster.create("b", 2)
    await quiet(cluster)

    assert answer.allowed
    assert ["a"] == cluster.running()
    await cluster.delete("a")
    await until(lambda: cluster.running() == ["b"])
    assert 2000 == cluster.used()


async def test_what_waits_starts_the_moment_a_limit_rises(cluster):
    await cluster.create("a", 6)
    await quiet(cluster)
    assert [] == cluster.running()
    await cluster.see_team(6)

    await until(lambda: cluster.running() == ["a"])


async def test_what_waits_starts_when_a_budget_period_begins(cluster):
    await cluster.see_team(4, cash={"limits.cpu": 100})
    now_s = cluster.clock.us // 10**6
    spent = Meter("team", "limits.cpu", 100, 0, now_s, resets_s=now_s + 60)

    def metered(draft):
        return TreeMetered(number=draft.number, meters=(spent,))

    tree = cluster.admission.journals.tree("biz/team")
    await cluster.admission.keeper.say(tree, metered)
    await cluster.create("a", 1)
    await quiet(cluster)
    assert [] == cluster.running()
    cluster.clock.after(60)

    await until(lambda: cluster.running() == ["a"])


async def test_where_the_quota_does_not_hold_what_does_not_fit_is_refused(cluster):
    await cluster.see_team(4, hold=False)
    answer = await cluster.create("a", 5)

    assert (False, "over-quota") == (answer.allowed, answer.reason)
    assert (await cluster.create("b", 4)).reason == "fits"


async def test_what_its_user_suspended_is_left_to_him(cluster):
    await cluster.create("a", 1, suspend=True)
    await quiet(cluster)

    assert [] == cluster.running()
    assert [] == cluster.released()


async def test_who_resumes_his_own_may_not_pass_those_that_wait(cluster):
    await cluster.create("a", 1, suspend=True)
    resumed = {**cluster.objects["a"], "spec": {**cluster.objects["a"]["spec"], "suspend": False}}

    with pytest.raises(PermissionDeniedError, match="has a queue"):
        await cluster.update("a", resumed)


async def test_a_held_job_that_is_deleted_is_forgotten(cluster):
    await cluster.create("a", 5)
    await quiet(cluster)
    await cluster.delete("a")
    await cluster.see_team(6)
    await quiet(cluster)

    assert ([], 0) == (cluster.released(), cluster.used())


async def test_priority_comes_before_arrival(cluster):
    await cluster.see_class("high", 100)
    await cluster.create("first", 4)
    await until(lambda: cluster.running() == ["first"])
    for name, priority in (("a", ""), ("b", ""), ("c", "high")):
        cluster.clock.after(1)
        await cluster.create(name, 4, priority=priority)
    for name in ("first", "c", "a"):
        await until(lambda name=name: cluster.running() == [name])
        await cluster.delete(name)

    await until(lambda: cluster.running() == ["b"])


async def test_a_person_moves_holds_and_releases(cluster):
    await cluster.create("first", 4)
    await until(lambda: cluster.running() == ["first"])
    for name in ("a", "b", "c"):
        cluster.clock.after(1)
        await cluster.create(name, 4)
    await cluster.order(cluster.uid("c"), "move", 10)
    await cluster.order(cluster.uid("a"), "hold")
    for name in ("first", "c", "b"):
        await until(lambda name=name: cluster.running() == [name])
        await cluster.delete(name)
    await quiet(cluster)
    assert [] == cluster.running()
    await cluster.order(cluster.uid("a"), "release")

    await until(lambda: cluster.running() == ["a"])


async def test_a_start_that_fails_is_tried_again(cluster):
    cluster.fails = [ClusterUnavailableError(status=503, delay_seconds=0.0)]
    await cluster.create("a", 1)

    await until(lambda: cluster.running() == ["a"])
    assert (2, ["a"]) == (cluster.patches, cluster.released())


async def test_a_start_that_somebody_refuses_is_tried_again_later(cluster):
    cluster.fails = [PermissionDeniedError(permission="patch jobs.batch", message="not now")]
    await cluster.create("a", 1)
    await quiet(cluster)
    assert [] == cluster.running()
    cluster.clock.after(1)

    await until(lambda: cluster.running() == ["a"])
    assert ["a"] == cluster.released()


def edited(cluster, name, cpu):
    """A held Job with other requests, which Kubernetes accepts while it is suspended."""
    object = copy.deepcopy(cluster.objects[name])
    (container,) = object["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"]["cpu"] = str(cpu)
    return object


async def test_a_held_job_that_is_edited_waits_for_what_it_asks_for_now(cluster):
    await cluster.create("a", 3)
    await until(lambda: cluster.running() == ["a"])
    await cluster.create("b", 2)
    await quiet(cluster)
    await cluster.update("b", edited(cluster, "b", 6))
    await cluster.delete("a")
    await quiet(cluster)
    assert ([], 0) == (cluster.running(), cluster.used())

    await cluster.update("b", edited(cluster, "b", 1))
    await until(lambda: cluster.running() == ["b"])
    assert 1000 == cluster.used()


async def test_a_job_that_is_edited_between_its_release_and_its_start_is_never_over(cluster):
    refusal = PermissionDeniedError(permission="patch jobs.batch", message="not now")
    cluster.fails = [refusal]
    await cluster.create("a", 1)
    await quiet(cluster)
    assert (["a"], 1000) == (cluster.released(), cluster.used())
    await cluster.update("a", edited(cluster, "a", 6))
    cluster.clock.after(1)
    await quiet(cluster)
    assert ([], True) == (cluster.running(), cluster.used() <= 4000)

    await cluster.update("a", edited(cluster, "a", 4))
    cluster.clock.after(1000)
    await until(lambda: cluster.running() == ["a"])
    assert 4000 == cluster.used()


async def test_what_is_granted_and_still_held_stays_charged(cluster):
    """Whatever a list shows of it after the API server's deadline."""
    refusal = PermissionDeniedError(permission="patch jobs.batch", message="not now")
    cluster.fails = [refusal] * 20
    await cluster.create("a", 3)
    await quiet(cluster)
    cluster.clock.after(1000)
    await cluster.list(cluster.uid("a"))
    await quiet(cluster)

    assert 3000 == cluster.used()
    cluster.fails = []
    cluster.clock.after(1000)
    await until(lambda: cluster.running() == ["a"])
    assert ["a"] == cluster.released()


async def test_a_start_is_tried_only_on_the_one_that_waits(cluster):
    """A namesake that was made anew is another object."""
    await cluster.create("a", 5)
    await quiet(cluster)
    old = cluster.objects.pop("a")
    cluster.objects["a"] = {**old, "metadata": {**old["metadata"], "uid": "another"}}
    await cluster.see_team(6)
    await quiet(cluster)

    assert ([], ["a"]) == (cluster.running(), cluster.released())


async def test_what_is_to_wait_again_holds_what_its_pods_hold_until_they_have_ended(cluster):
    """A suspended Job's pods have their grace; who starts in their place would run beside them."""
    await cluster.see_team(4, delay=60)
    await cluster.create("first", 3)
    await until(lambda: cluster.running() == ["first"])
    cluster.clock.after(1)
    await cluster.create("head", 4)
    cluster.clock.after(1)
    await cluster.create("small", 1)
    await until(lambda: cluster.running() == ["first", "small"])
    by = Owner(kind="Job", name="small", uid=cluster.objects["small"]["metadata"]["uid"])
    await cluster.see_pod("small-0", 1, owner=by)
    await cluster.delete("first")
    await quiet(cluster)
    cluster.clock.after(60)
    await until(lambda: cluster.running() == [])
    await quiet(cluster)
    assert ([], 1000) == (cluster.running(), cluster.used())
    await cluster.lose_pod("small-0", by)

    await until(lambda: cluster.running() == ["head"])


async def test_what_passed_the_head_waits_again_when_the_head_has_waited_long_enough(cluster):
    await cluster.see_team(4, delay=60)
    await cluster.create("first", 3)
    await until(lambda: cluster.running() == ["first"])
    cluster.clock.after(1)
    await cluster.create("head", 4)
    cluster.clock.after(1)
    await cluster.create("small", 1)
    await until(lambda: cluster.running() == ["first", "small"])
    await cluster.delete("first")
    await quiet(cluster)
    assert ["small"] == cluster.running()
    cluster.clock.after(60)

    await until(lambda: cluster.running() == ["head"])
    await quiet(cluster)
    told = [r["reason"] for e in cluster.said("released") for r in e["releases"]]
    assert ["vanished", "returning", "returned"] == told
    assert ["first", "small", "head"] == cluster.released()
    await cluster.delete("head")
    await until(lambda: cluster.running() == ["small"])
    assert [] == differences_of(cluster)


async def test_many_are_released_once_each_and_never_more_than_fit(cluster):
    await asyncio.gather(*(cluster.create(f"j{n}", 1) for n in range(40)))
    done = []
    while len(done) < 40:
        await until(cluster.running)
        assert len(cluster.running()) <= 4
        done += (ended := cluster.running())
        for name in ended:
            await cluster.delete(name)
    await quiet(cluster)

    assert sorted(done) == sorted(cluster.released()) == sorted(f"j{n}" for n in range(40))
    assert len(cluster.starts) == 40
    assert cluster.used() == 0


LABELS = (
    "queue.before_release",
    "queue.after_release",
    "release.before_patch",
    "release.after_patch",
)


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture
def crash():
    yield install_crash
    crashpoints.install(None)


def install_crash(label, times=1):
    """Die at a label for the ``times``-th time."""
    left = [times]

    def hook(reached):
        if reached == label:
            left[0] -= 1
            if left[0] == 0:
                raise Killed(label)

    crashpoints.install(hook)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("label", LABELS)
async def test_nothing_is_released_twice_and_nothing_forgotten_when_killed(crash, label, times):
    """At every label: whoever comes next starts what was granted, and goes on."""
    names = [f"j{n}" for n in range(6)]
    first = Jobs()
    crash(label, times)
    with pytest.raises(BaseException) as death:
        async with first:
            await first.see_team(2)
            for name in names:
                await first.create(name)
            await finished(first, names)
    assert first_of(death.value).args == (label,)
    crashpoints.install(None)
    async with Jobs(first.transport, before=first) as second:
        await quiet(second)
        await finished(second, [name for name in names if name in second.objects])
        await quiet(second)

        assert sorted(second.released()) == names
        assert sorted(name for name, _ in second.starts) == names
        assert second.used() == 0
    assert [] == differences_of(second)


async def finished(cluster, names):
    """Let each run and end; never more than fit."""
    async with asyncio.timeout(5):
        while names:
            assert len(cluster.running()) <= 2
            for name in cluster.running():
                names = [one for one in names if one != name]
                await cluster.delete(name)
            await asyncio.sleep(0.005)


def first_of(error):
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def test_every_release_follows_from_the_history(cluster):
    await cluster.see_class("high", 100)
    for n in range(12):
        cluster.clock.after(1)
        await cluster.create(f"j{n}", 1 + n % 3, priority="high" if n % 4 == 0 else "")
        if n == 6:
            await cluster.order(cluster.uid("j6"), "move", 1000)
        for name in cluster.running()[:2]:
            await cluster.delete(name)
    await finished_all(cluster)

    assert len(cluster.released()) == 12
    assert (12, ()) == (checked(cluster).same, checked(cluster).differences)


async def finished_all(cluster):
    async with asyncio.timeout(5):
        while cluster.objects:
            for name in cluster.running():
                cluster.clock.after(1)
                await cluster.delete(name)
            await asyncio.sleep(0.005)


def tampered(cluster, changes):
    """The place of the first release after the first one, with ``changes`` made to its bytes."""
    cluster.is_tampered = True
    events = cluster.transport.events
    place = [n for n, event in enumerate(events) if b'"released"' in event.body][1]
    body = events[place].body
    for before, after in changes:
        assert before in body
        body = body.replace(before, after)
    events[place] = msgspec.structs.replace(events[place], body=body)
    return events[place].sequence


async def test_a_release_out_of_turn_is_found(cluster):
    """The test above can see: one release exchanged for another one."""
    await cluster.create("first", 4)
    await until(lambda: cluster.running() == ["first"])
    for name in ("a", "b"):
        cluster.clock.after(1)
        await cluster.create(name, 4)
    await cluster.delete("first")
    await until(lambda: cluster.running() == ["a"])
    uids = [cluster.uid(name).encode() for name in ("a", "b")]
    written = [*cluster.transport.events]
    sequence = tampered(cluster, [uids, (b'"name":"a"', b'"name":"b"')])
    (found,) = differences_of(cluster)
    # Reviews that came after it do not follow from it.
    cluster.transport.events = written

    assert (sequence, "b", "a") == (found.sequence, found.recorded.name, found.should.name)


async def test_a_release_that_names_nothing_it_was_based_on_is_found(cluster):
    await cluster.create("a", 1)
    await until(lambda: cluster.running() == ["a"])
    await cluster.create("b", 1)
    await until(lambda: cluster.running() == ["a", "b"])
    based_on = re.search(rb'"based_on":\d+', later(cluster))
    sequence = tampered(cluster, [(based_on[0], b'"based_on":0')])

    assert [sequence] == [one.sequence for one in differences_of(cluster)]


def later(cluster):
    """The body of the second release."""
    return [e.body for e in cluster.transport.events if b'"released"' in e.body][1]


async def test_a_release_that_should_stand_beside_others_and_does_not_is_found(cluster):
    await cluster.create("first", 4)
    await until(lambda: cluster.running() == ["first"])
    for name in ("a", "b"):
        await cluster.create(name, 2)
    await cluster.delete("first")
    await until(lambda: cluster.running() == ["a", "b"])
    body = later(cluster)
    cut = body.rindex(b'"released"')
    sequence = tampered(cluster, [(body[cut:], body[cut:].replace(b'"released"', b'"fits"'))])
    (found,) = differences_of(cluster)

    assert (sequence, None, "b") == (found.sequence, found.recorded, found.should.name)


async def test_metrics_tell_who_waits_and_how_long_since_the_create(cluster):
    await cluster.create("a", 4)
    await cluster.create("b", 2)
    await until(lambda: cluster.running() == ["a"])
    cluster.clock.after(20)
    await cluster.delete("a")
    await until(lambda: cluster.running() == ["b"])
    await cluster.create("c", 4)
    await quiet(cluster)
    found = scraped(figures(cluster.admission.releasing.lines))

    assert found['bursar_queue_length{quota="team"}'] == 1
    assert found['bursar_queue_wait_seconds_bucket{le="1",quota="team"}'] == 1
    assert found['bursar_queue_wait_seconds_count{quota="team"}'] == 2


async def test_what_may_never_stand_in_its_quota_is_refused_and_does_not_wait(cluster):
    await cluster.see_team(4, namespaces=("others",))
    await cluster.settled()
    answer = await cluster.create("a", 1)

    assert (answer.allowed, answer.reason) == (False, "quota-not-yours")


async def test_what_may_not_wait_for_its_quota_any_more_stays_where_it_is(cluster):
    """It was held before the setting was: a release of the same tree is derived again with the setting."""
    await cluster.see_quota("root", {"limits.cpu": 8000})
    await cluster.see_team(1, name="theirs", parent="root")
    await cluster.see_team(1, name="ours", parent="root", serves=Serves(("ns",)))
    for quota in ("theirs", "ours"):
        await cluster.create(f"{quota}-first", quota=quota)
        await cluster.create(f"{quota}-next", quota=quota)
    await until(lambda: len(cluster.running()) == 2)
    cluster.admission.view.requires_namespaces = True
    await cluster.delete("theirs-first")
    await cluster.delete("ours-first")
    await until(lambda: cluster.running() == ["ours-next"])

    assert (3, ()) == (checked(cluster).same, checked(cluster).differences)

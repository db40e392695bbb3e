"""Events of refused workloads: what they say, how many there are, and that nothing waits for them."""

import asyncio

import pytest

from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.events.admissions import Deficit
from reactors.effectors.events import ALL, EACH, LONGEST_NOTE, MOST_SERIES
from tests.reactors.effectors.written import World

PATH = "/apis/events.k8s.io/v1/namespaces/ns/events"


async def test_a_refusal_is_an_event_beside_the_workload():
    world = World()
    world.refuse()

    ((verb, path, body),) = await world.work()

    assert (verb, path) == ("create", PATH)
    name = body["metadata"].pop("name")
    assert name.startswith("bursar.") and len(name) == 23
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "bursar.io/admission",
        "reportingInstance": "host-1",
        "action": "Admit",
        "reason": "OverQuota",
        "regarding": {
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": "web", "uid": "u",
        },
        "note": "quota 'team': limits.cpu asks for 2 more, 3 of 4 are used, 1 too much; "
        "this namespace holds 3, others 0 (over-quota)",
        "type": "Warning",
    }  # fmt: skip


async def test_the_same_refusal_again_and_again_is_one_event_with_a_series_written_once_a_minute():
    world = World()
    world.refuse()
    await world.work()
    for _ in range(500):
        world.refuse()
    await world.work(after_s=59)
    before = len(world.cluster.said)
    verb, path, body = (await world.work(after_s=1))[-1]

    name = world.cluster.said[0][2]["metadata"]["name"]
    assert (before, verb, path) == (1, "merge", f"{PATH}/{name}")
    assert body == {"series": {"count": 501, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}


async def test_a_series_ends_after_six_minutes_without_a_refusal():
    world = World()
    world.refuse()
    await world.work()
    await world.work(after_s=361)
    world.refuse()
    await world.work()

    assert [verb for verb, _, _ in world.cluster.said] == ["create", "create"]


async def test_refusals_before_the_first_write_are_a_series_at_once():
    world = World()
    world.refuse()
    world.refuse()

    ((_, _, body),) = await world.work()

    assert body["series"]["count"] == 2


@pytest.mark.parametrize(
    "fields",
    [{"verdict": "admitted"}, {"verdict": "adopted"}, {"namespace": ""}, {"ago_s": 601}],
    ids=["admitted", "adopted", "without a namespace", "long ago"],
)
async def test_other_decisions_are_not_told(fields):
    world = World()
    world.refuse(**fields)

    assert await world.work() == []


async def test_all_events_together_and_those_of_a_namespace_are_bounded():
    world = World()
    for number in range(500):
        world.refuse(f"web-{number}")
        world.refuse(f"web-{number}", namespace=f"ns-{number}")
    await world.work()
    paths = [path for _, path, _ in world.cluster.said]

    assert (paths.count(PATH), len(paths)) == (EACH.burst, ALL.burst)
    await world.work(after_s=1)
    assert len(world.cluster.said) == ALL.burst + ALL.per_second


async def test_the_oldest_of_too_many_series_gives_way_and_is_counted():
    world = World()
    for number in range(MOST_SERIES + 3):
        world.refuse(f"web-{number}")

    assert world.recorder.counts == {"crowded": 3}


async def test_in_shadow_mode_the_event_says_that_nothing_was_refused():
    world = World(is_shadow=True)
    world.refuse()

    ((_, _, body),) = await world.work()

    assert (body["type"], body["note"][:25]) == ("Normal", "Bursar would refuse this:")


async def test_a_note_is_cut_to_what_the_api_server_takes():
    world = World()
    world.refuse(deficits=tuple(Deficit("limits.é/" + "x" * 60, 1, 1, 1) for _ in range(40)))

    ((_, _, body),) = await world.work()

    assert LONGEST_NOTE - 2 < len(body["note"].encode()) <= LONGEST_NOTE


@pytest.mark.parametrize(
    ("error", "counted", "again"),
    [
        (RequestRefusedError(request="r", message="m"), "refused", 1),
        (PermissionDeniedError(request="r", message="m"), "denied", 1),
        (NotFoundError(request="r", message="m"), "gone", 1),
        (ConflictError(request="r", message="m"), "written", 1),
        (ClusterUnavailableError(request="r", delay_seconds=0), "written", 2),
    ],
    ids=["refused", "denied", "namespace gone", "made before", "away"],
)
async def test_what_cannot_be_written_is_counted_and_only_an_absent_api_server_is_asked_again(
    error, counted, again
):
    world = World(error)
    world.refuse()
    await world.work()
    await world.work(after_s=61)

    assert (dict(world.recorder.counts), len(world.cluster.said)) == ({counted: 1}, again)


async def test_writing_begins_with_a_refusal_and_rests_without_one():
    world = World()
    running = asyncio.create_task(world.recorder.run())
    await asyncio.sleep(0)
    world.refuse()
    for _ in range(100):
        await asyncio.sleep(0)
        if world.cluster.said:
            break
    running.cancel()

    assert len(world.cluster.said) == 1

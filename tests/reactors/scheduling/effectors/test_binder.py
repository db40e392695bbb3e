"""Binding what is outstanding: several at once, never two ways, killed anywhere, and quiet while the API server is in trouble."""

import asyncio

import pytest

from bus import crashpoints
from bus.errors import (
    BusUnavailableError,
    ClusterUnavailableError,
    ConflictError,
    PermissionDeniedError,
    UnknownRightsError,
)
from reactors.scheduling.effectors.binder import AT_ONCE, Binder
from tests.reactors.scheduling.outstanding import World

pytestmark = pytest.mark.simulated

NO_RIGHT = UnknownRightsError(message='User "u" cannot create resource "pods/binding"')


class Killed(BaseException):
    """The process ends here."""


async def test_what_is_decided_is_bound_at_once_and_nobody_looks_while_nothing_moves():
    world, loop = World(), asyncio.get_running_loop()
    async with world.running():
        await asyncio.sleep(100.505)
        began, idle = loop.time(), world.looks
        world.place("p")
        while not world.told:
            await asyncio.sleep(0.001)

    assert loop.time() - began < 0.015
    assert idle <= 102


async def test_placements_that_come_one_after_another_do_not_wait_for_each_other():
    world, loop = World(), asyncio.get_running_loop()
    world.cluster.seconds, waits = 0.002, []
    async with world.running():
        for number in range(20):
            began = loop.time()
            world.place(f"p{number}")
            while len(world.told) <= number:
                await asyncio.sleep(0.0005)
            waits.append(loop.time() - began)

    assert max(waits) < 0.006


async def test_nobody_looks_all_the_time_while_a_bind_takes_long():
    world = World("p")
    world.cluster.seconds = 10.0
    await world.run(10.0)

    assert world.looks < 600


async def test_what_is_refused_late_is_said_at_once_though_nothing_moves():
    world, loop = World("gone"), asyncio.get_running_loop()
    world.cluster.errors, world.cluster.seconds = {"gone": [ConflictError()]}, 0.1
    began = loop.time()
    async with world.running():
        while not world.settled:
            await asyncio.sleep(0.001)

    assert loop.time() - began < 0.2


async def test_what_the_bus_refuses_at_once_is_said_again_when_it_asked_for():
    world = World("gone")
    world.cluster.errors = {"gone": [ConflictError()]}
    world.say_errors = [BusUnavailableError(delay_seconds=0.0) for _ in range(3)]
    world.say_errors += [BusUnavailableError(delay_seconds=5.0) for _ in range(997)]
    async with world.running():
        await asyncio.sleep(20)
        left, looks = len(world.say_errors), world.looks
        world.say_errors.clear()
        await asyncio.sleep(6)

    assert 990 < left < 995 and looks < 1_200
    assert world.settled == [("gone", "gone")]


async def test_everything_outstanding_is_bound_once_and_several_at_once():
    names = [f"p{n}" for n in range(100)]
    world = World(*names)
    await world.run()

    assert world.cluster.nodes == dict.fromkeys(names, "n1")
    assert sorted(world.cluster.asked) == sorted((name, "n1") for name in names)
    assert (world.cluster.most_at_once, sorted(world.told)) == (AT_ONCE, sorted(names))


async def test_a_lost_answer_is_looked_up_and_nothing_is_bound_again():
    world = World("p")
    world.cluster.lost = {"p"}
    await world.run()

    assert ([("p", "n1")], ["p"], []) == (world.cluster.asked, world.told, world.settled)


async def test_what_is_not_bound_is_said_together_and_again_where_the_bus_is_away():
    world = World("p", "q", "gone")
    world.cluster.nodes = {"p": "n2"}
    world.cluster.errors = {"gone": [ConflictError()]}
    world.say_errors = [BusUnavailableError()]
    await world.run(3.0)

    assert sorted(world.settled) == [("gone", "gone"), ("p", "elsewhere")]
    assert world.cluster.nodes["q"] == "n1"


async def test_too_many_requests_make_everybody_wait_as_long_as_is_asked():
    busy = ClusterUnavailableError(status=429, delay_seconds=7.0)
    world = World(*(f"p{n}" for n in range(40)))
    world.cluster.errors = {"p0": [busy]}
    async with world.running():
        await asyncio.sleep(6.9)
        before = len(world.cluster.asked)
        await asyncio.sleep(2.0)

    assert before <= AT_ONCE
    assert len(world.cluster.nodes) == 40
    assert "status=429" in str(busy) and world.binder.trouble == ""


async def test_a_missing_right_is_said_keeps_the_room_and_is_tried_again_after_half_a_minute():
    world = World("p")
    world.cluster.errors = {"p": [NO_RIGHT]}
    async with world.running():
        await asyncio.sleep(29)
        assert ([], [("p", "n1")]) == (world.settled, world.cluster.asked)
        assert "pods/binding" in world.binder.trouble
        await asyncio.sleep(3)

    assert (["p"], "") == (world.told, world.binder.trouble)


async def test_an_uncertain_one_is_tried_again_on_the_same_node():
    world = World("p")
    world.cluster.errors = {"p": [ClusterUnavailableError()] * 2}
    await world.run(10)

    assert (["p"], [("p", "n1")] * 3) == (world.told, world.cluster.asked)


async def test_a_placement_that_is_not_right_any_more_is_not_bound():
    world = World("p", "q")
    world.cluster.errors = {"p": [ClusterUnavailableError(delay_seconds=5.0)]}
    async with world.running():
        await asyncio.sleep(1)
        world.wanted.pop("p")
        world.moves += 1
        world.place("q", "n2", "d2")
        await asyncio.sleep(20)

    assert "p" not in world.cluster.nodes


async def test_a_pod_that_is_placed_anew_is_bound_to_its_new_node():
    world = World("p")
    world.cluster.errors = {"p": [ConflictError(message="has gates")]}
    async with world.running():
        await asyncio.sleep(21)
        world.place("p", "n2", "d2")
        await asyncio.sleep(1)

    assert ([("p", "refused")], {"p": "n2"}) == (world.settled, world.cluster.nodes)


async def test_a_refused_pod_keeps_its_room_until_another_process_cannot_have_bound_it():
    """One process is refused where another is let through: the pod decides."""
    world = World("p", "q")
    world.cluster.errors = {name: [ConflictError(message="a webhook said no")] for name in "pq"}
    async with world.running():
        await asyncio.sleep(1)
        world.cluster.nodes["p"] = "n1"
        await asyncio.sleep(18)
        before = list(world.settled)
        await asyncio.sleep(2)

    assert ([], [("q", "refused")], ["p"]) == (before, world.settled, world.told)


async def test_what_is_overtaken_is_given_up_unless_the_pod_has_its_node():
    world = World("p", "q")
    world.cluster.nodes = {"q": "n1"}
    world.against = {"p": "node_cordoned", "q": "node_cordoned"}
    await world.run()

    assert ([("p", "refused")], ["q"], []) == (world.settled, world.told, world.cluster.asked)


async def test_room_is_not_given_back_while_a_lost_request_may_arrive():
    world = World("p")
    world.cluster.errors = {"p": [ClusterUnavailableError()]}
    async with world.running():
        await asyncio.sleep(0.5)
        world.against = {"p": "node_gone"}
        await asyncio.sleep(74)
        before = list(world.settled)
        await asyncio.sleep(3)

    assert ([], [("p", "refused")]) == (before, world.settled)


async def test_a_bound_pod_that_nobody_observes_is_asked_about_again():
    world = World("p")
    async with world.running():
        await asyncio.sleep(299)
        before = len(world.cluster.asked)
        await asyncio.sleep(3)

    assert (1, 2, {"p": "n1"}) == (before, len(world.cluster.asked), world.cluster.nodes)


@pytest.mark.parametrize("label", ["bind.before_post", "bind.after_post", "bind.before_settle"])
async def test_a_kill_anywhere_binds_nothing_two_ways(label, monkeypatch):
    world = World("p", "taken")
    world.cluster.nodes = {"taken": "n2"}
    left = [1]

    def hook(reached):
        if reached == label and left[0]:
            left[0] -= 1
            raise Killed

    crashpoints.install(hook)
    try:
        await world.run()
        assert left == [0]
        await world.run()
    finally:
        crashpoints.install(None)

    assert {"p": "n1", "taken": "n2"} == world.cluster.nodes
    assert [("taken", "elsewhere")] == world.settled


async def test_two_processes_bind_nothing_two_ways():
    world = World(*(f"p{n}" for n in range(30)))
    other = Binder(world.cluster, world, world.settle, lambda one: None)
    task = asyncio.create_task(other.run())
    await world.run()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert (dict.fromkeys((f"p{n}" for n in range(30)), "n1"), []) == (
        world.cluster.nodes,
        world.settled,
    )


CLAIM_PATH = "/api/v1/namespaces/ns/persistentvolumeclaims/p"


@pytest.fixture
def claiming():
    world = World("p")
    world.cluster.select("p", "")
    return world


def named(world):
    """How often a node was written on a claim."""
    return sum(where == CLAIM_PATH for where, _ in world.cluster.asked)


async def test_a_pod_is_bound_when_its_claim_is(claiming):
    async with claiming.running():
        await asyncio.sleep(5)
        before = dict(claiming.cluster.nodes)
        claiming.cluster.unbound.clear()
        await asyncio.sleep(5)

    written = {"uid": "claim-p", "resourceVersion": "1"}
    written["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}
    assert claiming.cluster.asked == [(CLAIM_PATH, written), ("p", "n1")]
    assert (before, claiming.cluster.nodes) == ({}, {"p": "n1"})


async def test_it_is_looked_at_less_often_the_longer_it_takes(claiming):
    looks, of = [], claiming.claims
    claiming.claims = lambda placement: looks.append(0) or of(placement)
    await claiming.run(500)

    assert named(claiming) == 1
    assert 10 < len(looks) < 40


async def test_a_claim_of_another_node_is_left_alone(claiming):
    claiming.cluster.select("p", "n2")
    await claiming.run(5)

    assert (named(claiming), claiming.cluster.nodes) == (0, {})
    assert claiming.settled == [("p", "refused")]


async def test_a_pod_gives_its_node_up_where_no_volume_can_be_made(claiming):
    """Whoever makes volumes takes the node from the claim again."""
    async with claiming.running():
        await asyncio.sleep(2)
        claiming.cluster.select("p", "")
        await asyncio.sleep(5)

    assert (named(claiming), claiming.cluster.nodes) == (1, {})
    assert claiming.settled == [("p", "refused")]


async def test_a_node_that_was_written_and_is_not_seen_yet_is_waited_for(claiming):
    stale = claiming.cluster.unbound["p"]
    claiming.claims = lambda placement: stale
    await claiming.run(5)

    assert (named(claiming), claiming.settled) == (1, [])


@pytest.mark.parametrize(
    "error", [ConflictError(), ClusterUnavailableError(status=429, delay_seconds=2.0)]
)
async def test_what_may_be_tried_again_is(claiming, error):
    claiming.cluster.errors["p"] = [error]
    await claiming.run(10)

    assert (named(claiming), claiming.settled) == (2, [])
    assert claiming.cluster.unbound["p"][0].selected_node == "n1"


async def test_a_missing_right_holds_up_this_pod_and_no_other(claiming):
    claiming.place("q")
    claiming.cluster.errors["p"] = [PermissionDeniedError(message="no patch")]
    await claiming.run(2)

    assert claiming.settled == [("p", "refused")]
    assert claiming.cluster.nodes == {"q": "n1"}


@pytest.mark.parametrize("label", ["bind.before_claim", "bind.after_claim"])
async def test_a_kill_anywhere_names_one_node(claiming, label):
    left = [1]

    def hook(reached):
        if reached == label and left[0]:
            left[0] -= 1
            raise Killed

    crashpoints.install(hook)
    try:
        await claiming.run()
        assert left == [0]
        await claiming.run(5)
    finally:
        crashpoints.install(None)

    assert named(claiming) == 1
    assert claiming.cluster.unbound["p"][0].selected_node == "n1"

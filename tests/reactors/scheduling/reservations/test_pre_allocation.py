"""A reservation with preAllocation takes the place of a pod that runs: nobody is evicted, and its room is held when it ends."""

import pytest

from reactors.scheduling.cycle.reservation_statuses import wanted
from reactors.scheduling.settings import SchedulingPolicy
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.reserving import POLICY, Reserving, reserving
from tests.reactors.scheduling.scene import fresh, same


async def full(app="web", cpu=6, **fields):
    """A node of eight cores of which a pod has most, and a reservation of six that may take its place."""
    at = await reserving()
    await at.say(at.owner("runs", app, cpu, node="n0"))
    await at.say(at.reservation("web", 6, **{"pre_allocation": True} | fields))
    return at


def free(at):
    columns = at.state.scheduler.columns
    return int(columns.resources.free[columns.row_of["n0"], 0])


def available(at):
    return at.again("web", node="n0", phase="Available", allocatable={"cpu": "6"})


async def test_it_gets_the_node_of_a_pod_that_it_is_for_and_holds_the_room_when_that_ends():
    at = await full(cpu=4)

    assert (at.outstanding(), free(at)) == ({"web": "n0"}, 2_000)
    assert at.reservations.given("runs") == "web"
    await at.say(available(at), at.owner("stranger", "other", 3))
    assert at.reservations.status("web").owners == ("runs",) and "stranger" not in dict(at.placed())
    await at.say(at.gone("runs"))
    await at.tick(15)
    assert free(at) == 2_000 and "stranger" not in dict(at.placed())
    await at.say(at.owner("next", "web", 6))
    assert dict(at.placed())["next"] == "n0" and same(at)


async def test_its_status_names_the_pod_once_it_has_its_node():
    at = await full()
    await at.say(available(at))
    replica = at.runner.replica.cluster_state
    [found] = wanted(at.state.scheduler, replica.pods, replica.reservations, 0)

    assert ([pod.uid for pod in found.owners], found.status.allocated["cpu"]) == (["runs"], 6_000)


async def test_one_that_is_used_once_is_used_up_by_the_pod():
    at = await full(allocate_once=True)
    await at.say(available(at))

    assert at.reservations.status("web").phase == "Succeeded"
    await at.say(at.gone("runs"))
    assert free(at) == 8_000


@pytest.mark.parametrize(
    ("app", "cpu", "fields"),
    [("other", 6, {}), ("web", 7, {}), ("web", 6, {"pre_allocation": False})],
    ids=["it is for others", "the pod is larger", "it is none of the kind"],
)
async def test_it_takes_no_place_else_and_waits(app, cpu, fields):
    at = await full(app, cpu, **fields)

    assert at.outstanding() == {} and at.reservations.given("runs") == ""
    assert free(at) == 8_000 - cpu * 1_000


async def test_who_ends_before_it_has_its_node_leaves_it_all_of_its_room():
    at = await full()
    await at.say(at.gone("runs"))

    assert (at.outstanding(), free(at)) == ({"web": "n0"}, 2_000)
    await at.say(available(at))
    assert (at.reservations.status("web").owners, free(at)) == ((), 2_000)


async def test_a_bind_that_fails_gives_the_place_back():
    at = await full()
    await at.say(at.settled("web"))

    assert at.reservations.given("runs") == "" and free(at) == 2_000
    assert at.reservations.status("web").allocated == {}
    await at.tick(15)
    assert at.outstanding() == {"web": "n0"} and same(at)


async def test_two_never_take_one_place():
    at = await full()
    await at.say(at.reservation("twin", 6, pre_allocation=True, owners=at.told["web"].owners))
    await at.tick(15)

    assert len(at.outstanding()) == 1 and free(at) == 2_000


async def test_a_pod_without_room_for_it_beside_is_replaced_and_nobody_else_is_lifted():
    at = await reserving(2)
    await at.say(at.owner("small", "web", 2, node="n0"), at.owner("more", "x", 6, node="n0"))
    await at.say(at.owner("large", "web", 5, node="n1"), at.owner("rest", "x", 3, node="n1"))
    await at.say(at.reservation("web", 5, pre_allocation=True))

    assert at.outstanding() == {"web": "n1"} and at.reservations.given("large") == "web"


async def test_given_another_node_by_somebody_else_it_owns_nothing_here():
    at = await full()
    await at.say(at.node("n1"))
    await at.say(at.again("web", node="n1", phase="Available", allocatable={"cpu": "6"}))

    assert at.reservations.status("web").owners == () and free(at) == 2_000


async def test_a_change_of_policy_keeps_the_place_that_may_be_written_and_no_other():
    at = await full()
    await at.set_policy(SchedulingPolicy(profiles=POLICY.profiles, most_pods=400))
    assert at.reservations.given("runs") == "web" and free(at) == 2_000

    shadow = Reserving()
    await shadow.say(shadow.node("n0"), shadow.owner("runs", "web", 6, node="n0"))
    await shadow.set_policy(POLICY, mode="shadow")
    await shadow.say(shadow.reservation("web", 6, pre_allocation=True))
    await shadow.set_policy(SchedulingPolicy(profiles=POLICY.profiles, most_pods=400))
    # What was decided before has ended; it may be decided anew.
    is_decided = "web" in shadow.state.scheduler.assumed
    assert (shadow.reservations.given("runs") == "web") is is_decided


async def test_what_is_known_survives_any_end_of_the_process():
    at = await full(cpu=4)
    await at.say(available(at), at.gone("runs"), at.owner("next", "web", 6))
    events = at.transport.events

    assert known(folded(fresh(at), events, [], cuts=range(1, len(events) + 1))) == known(at.runner.replica)  # fmt: skip

"""Reservations are scheduled like pods and hold their room, and pods that they are meant for land in it."""

import pytest

from bus.events.constraints import LabelSelector
from bus.events.pods import ReservationOwner
from reactors.scheduling.settings import SchedulingPolicy
from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.reserving import POLICY, Reserving, reserving
from tests.reactors.scheduling.scene import fresh, same


def restoring(at):
    """What is known after all events, broken off after each of them."""
    events = at.transport.events
    return known(folded(fresh(at), events, [], cuts=range(1, len(events) + 1)))


async def test_room_is_held_and_the_pod_it_is_meant_for_lands_in_it():
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0"))
    await at.say(at.owner("stranger", "other", 3), at.owner("own", "web", 5))

    assert at.placed() == [("own", "n0")]
    assert at.reservations.given("own") == "web"
    await at.say(at.seen("own", "web", 5))
    assert at.reservations.status("web").allocated == {"cpu": 5000}
    # The node counts the pod and what is left: 8 - 5 - 1.
    await at.say(at.owner("small", "other", 2))
    assert at.placed()[-1] == ("small", "n0")
    assert same(at)


async def test_what_is_given_of_a_reservation_comes_back_with_the_pod():
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0"), at.owner("a", "web", 4))
    await at.say(at.seen("a", "web", 4), at.owner("b", "web", 4))
    assert "b" not in dict(at.placed())

    await at.say(at.gone("a"))
    await at.tick(15)

    assert dict(at.placed())["b"] == "n0"
    assert same(at)


async def test_a_reservation_that_is_used_once_holds_nothing_more():
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0", allocate_once=True), at.owner("a", "web", 1))
    await at.say(at.owner("stranger", "other", 7))
    # Its bind may fail.
    assert at.placed() == [("a", "n0")]
    await at.say(at.seen("a", "web", 1))
    await at.tick(15)

    assert dict(at.placed()) == {"a": "n0", "stranger": "n0"}
    assert at.reservations.status("web").phase == "Succeeded"


async def test_a_bind_that_fails_gives_the_room_back_to_the_reservation():
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0", allocate_once=True), at.owner("a", "web", 4))
    assert at.outstanding() == {"a": "n0"}
    await at.say(at.settled("a"))
    await at.say(at.owner("stranger", "other", 3))

    assert at.reservations.status("web").phase == "Available"
    assert "stranger" not in dict(at.placed())
    assert same(at)


async def test_a_reservation_that_waits_gets_a_node_like_a_pod():
    at = await reserving(2)
    await at.say(at.owner("big", "x", 6))
    await at.say(at.seen("big", "x", 6))
    await at.say(at.reservation("web", 6, template_node=""))
    node = dict(at.placed())["web"]

    assert at.outstanding()["web"] == node
    assert node != dict(at.placed())["big"]
    await at.say(at.owner("stranger", "other", 3))
    assert "stranger" not in dict(at.placed())
    # Nobody uses it before its status says that it is there.
    await at.say(at.owner("own", "web", 5))
    assert "own" not in dict(at.placed())
    await at.say(at.again("web", node=node, phase="Available", allocatable={"cpu": "6"}))
    await at.tick(15)
    assert dict(at.placed())["own"] == node
    assert "web" not in at.outstanding()
    assert same(at)


async def test_a_reservation_goes_to_the_node_that_its_template_names_or_waits():
    at = await reserving(3)
    await at.say(
        at.reservation("web", 2, template_node="n2"), at.reservation("no", template_node="gone")
    )

    assert dict(at.placed()) == {"web": "n2"}


async def test_room_is_free_when_the_time_of_a_reservation_is_over():
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0", ttl="60s"), at.reservation("late", 7, ttl="30s"))
    await at.say(at.owner("stranger", "other", 5))
    assert at.placed() == []

    await at.tick(70)
    await at.tick(15)

    assert at.placed() == [("stranger", "n0")]
    assert at.reservations.status("web").phase == "Failed"
    assert same(at)


async def test_a_reservation_that_is_gone_or_closed_is_used_by_nobody():
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0", unschedulable=True), at.owner("a", "web", 3))
    assert at.placed() == []

    await at.say(at.no_reservation("web"))
    await at.tick(15)

    assert at.placed() == [("a", "n0")]
    assert at.reservations.given("a") == ""


async def test_the_owners_that_a_status_names_count_once():
    at = await reserving()
    await at.say(at.owner("a", "web", 4, node="n0"))
    await at.say(at.reservation("web", 6, "n0", current_owners=("a",), allocated={"cpu": "4"}))

    assert at.reservations.status("web").allocated == {"cpu": 4000}
    await at.say(at.owner("more", "other", 3))
    assert at.placed() == []
    await at.say(at.owner("two", "other", 2))
    assert at.placed() == [("two", "n0")]


async def test_the_room_of_a_reservation_is_nobodys_to_preempt():
    at = await reserving()
    await at.say(
        at.reservation("web", 6, "n0", priority=-5), at.owner("king", "other", 7, priority=1000)
    )
    await at.tick(15)

    assert at.placed() == []
    assert not any(one.nominated for one in at.passes())


async def test_a_snapshot_has_what_was_given():
    at = await reserving(2)
    await at.say(
        at.reservation("web", 6, "n0"), at.reservation("waits", 3), at.owner("a", "web", 4)
    )
    await at.say(at.seen("a", "web", 4), at.owner("b", "web", 2))
    await at.tick(15)

    assert restoring(at) == known(at.runner.replica)


HOSTILE = {
    "huge amounts": {"allocatable": {"cpu": "9" * 30, "memory": "1e40", "x/y": "-5"}},
    "amounts that are none": {"allocatable": {"cpu": "NaN", "": "", "memory": "[]"}},
    "a duration that is none": {"ttl": "9" * 64},
    "a duration below 0": {"ttl": "-1h"},
    "a huge duration": {"ttl": "999999999999h999999999999h"},
    "times that are none": {"expires": "tomorrow", "created": "never"},
    "an order that is none": {"order": "-" + "9" * 40},
    "a node that is none": {"node": "no/such\nnode", "phase": "Available"},
    "a phase that is none": {"phase": "Waiting", "node": "n0"},
    "owners that name themselves": {"current_owners": ("web", "web", "n0")},
    "restricted to nothing": {"allocate_policy": "Restricted", "restricted": ("no/such",)},
    "a policy that is none": {"allocate_policy": "\u202e"},
    "selectors that are none": {
        "owners": (ReservationOwner(label_selector=LabelSelector(match_labels={"": ""})),)
    },
    "no owners": {"owners": (), "owners_cut": True},
    "everybody": {"owners": (ReservationOwner(),)},
    "a huge priority": {"priority": 2**31 - 1, "node": "", "phase": ""},
}


@pytest.mark.parametrize("said", HOSTILE.values(), ids=HOSTILE)
async def test_whatever_a_reservation_says_ends_nothing(said):
    at = await reserving()
    await at.say(at.reservation("web", 2, **{"node": "n0"} | said))
    await at.say(
        at.owner("a", "web", 1), at.owner("b", "other", 1), at.owner("c", "web", 1, node="n0")
    )
    await at.tick(15)
    await at.say(at.again("web", **said), at.gone("c"), at.no_reservation("web"))
    await at.tick(15)

    assert restoring(at) == known(at.runner.replica)
    assert same(at)


@pytest.mark.parametrize("mode", ["shadow", "on"])
async def test_where_no_profile_asks_for_them_reservations_are_nothing(mode):
    cluster = Reserving()
    await cluster.set_policy(SchedulingPolicy(), mode)
    await cluster.say(cluster.node("n"), cluster.reservation("r"), cluster.pod("p"))
    await cluster.say(cluster.again("r", phase="Available", node="n"), cluster.no_reservation("r"))
    await cluster.set_policy(POLICY, mode)
    await cluster.say(cluster.reservation("s"))
    await cluster.set_policy(SchedulingPolicy(), mode)
    await cluster.say(cluster.again("s", phase="Failed"))

    assert ("p", "n") in cluster.placed() and "r" not in dict(cluster.placed())
    assert same(cluster) == len(cluster.passes())

"""Who uses a reservation follows from what exists, after a change of policy and whoever names a pod as well."""

import itertools

import pytest

from tests.reactors.engine.restoring import folded, known
from tests.reactors.scheduling.reserving import POLICY, reserving
from tests.reactors.scheduling.scene import fresh


@pytest.mark.parametrize("mode", ["on", "shadow"])
async def test_what_a_shadow_gave_is_given_back_by_another_policy(mode):
    at = await reserving(mode="shadow")
    await at.say(at.reservation("once", 4, "n0", allocate_once=True), at.owner("p", "once", 2))
    assert at.reservations.status("once").phase == "Succeeded"

    await at.say(at.node("n0", unschedulable=True))
    await at.set_policy(POLICY, mode=mode)
    await at.say(at.gone("p"))
    await at.tick()

    status = at.reservations.status("once")
    assert (status.phase, status.owners, dict(status.allocated)) == ("Available", (), {})
    assert at.reservations.given("p") == ""


async def test_what_may_be_bound_still_is_kept_by_another_policy_and_given_back_when_it_goes():
    at = await reserving()
    await at.say(at.reservation("once", 4, "n0", allocate_once=True), at.owner("p", "once", 2))
    await at.set_policy(POLICY)
    assert at.reservations.given("p") == "once"

    await at.say(at.gone("p"))
    assert at.reservations.status("once").phase == "Available"


@pytest.mark.parametrize("names", list(itertools.permutations("abc")))
async def test_of_several_that_name_a_pod_the_first_has_it_whatever_was_seen_first(names):
    at = await reserving()
    await at.say(at.owner("p", "x", 1, node="n0"))
    for name in names:
        await at.say(at.reservation(name, 2, "n0", current_owners=("p", "p")))
    assert at.reservations.given("p") == "a"
    assert [at.reservations.status(name).owners for name in "abc"] == [("p",), (), ()]


async def test_a_pod_that_a_reservation_names_no_more_is_not_its_owner_when_it_comes():
    at = await reserving()
    await at.say(at.reservation("web", 2, "n0", current_owners=("p",)))
    await at.say(at.again("web", current_owners=()), at.owner("p", "x", 1, node="n0"))

    assert at.reservations.given("p") == ""
    events = at.transport.events
    assert known(folded(fresh(at), events, [], cuts=range(1, len(events) + 1))) == known(
        at.runner.replica
    )

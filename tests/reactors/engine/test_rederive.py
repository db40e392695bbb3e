"""Decisions derived again from the history are the same bytes, and forged or altered ones are found."""

import random

import msgspec
import pytest

from bus.events.decisions import Cull
from reactors.engine.verify import rederive
from tests.factories import CLUSTER, pod_observed, pod_vanished, pods_listed
from tests.reactors.engine.toys import Scene, ticked, toy


async def a_life(seed=0):
    """Pods come and go over some minutes; two processes decide, and one of them sees little of it."""
    chance = random.Random(seed)
    at = Scene()
    other = Scene(at.transport, at.clock)
    await at.policy()
    for step in range(150):
        at.clock.after(70 if step == 100 else chance.choice([10, 20, 50]))
        await at.transport.publish([ticked(at.at())])
        uid = f"{chance.choice(['idle', 'busy'])}-{step}"
        await at.transport.publish([pod_observed(uid, at=at.at(), version=step + 1)])
        if not chance.randrange(9):
            await at.transport.publish([pod_vanished(uid, at=at.at())])
        if step == 60:
            await at.transport.publish(pods_listed([], version=9, at=at.at()))
        for scene in chance.sample([at, other], k=chance.randrange(1, 3)):
            await scene.read()
        await at.runner.work()
    await at.read()
    return at


@pytest.mark.parametrize("seed", range(5))
async def test_deriving_decisions_again_gives_the_same_bytes(seed):
    at = await a_life(seed)
    found = rederive(lambda: at.transport.events, [toy()], CLUSTER)

    assert (len(at.decisions()), 0, ()) == (found.same, found.passed_over, found.mismatches)
    assert len(at.decisions()) > 3


async def test_a_decision_that_the_rules_do_not_make_is_found():
    at = await a_life()
    forged = msgspec.structs.replace(at.decisions()[0], id="0" * 32, key="busy-1")
    await at.transport.publish(
        [forged.event(cluster=CLUSTER, key="busy-1", id=forged.id, source="x", time_us=1)]
    )
    found = rederive(lambda: at.transport.events, [toy()], CLUSTER)

    assert ["not_derived"] == [mismatch.what for mismatch in found.mismatches]


async def test_an_altered_decision_is_found():
    at = await a_life()
    place = next(n for n, e in enumerate(at.transport.events) if e.type == Cull.wire_type)
    event = at.transport.events[place]
    at.transport.events[place] = msgspec.structs.replace(
        event, body=event.body.replace(b'"idle"', b'"other"')
    )
    found = rederive(lambda: at.transport.events, [toy()], CLUSTER)

    assert [("altered", event.sequence)] == [(m.what, m.sequence) for m in found.mismatches]


async def test_decisions_by_other_rules_are_passed_over():
    at = await a_life()
    found = rederive(lambda: at.transport.events, [toy(version=2)], CLUSTER)

    assert (0, len(at.decisions()), ()) == (found.same, found.passed_over, found.mismatches)

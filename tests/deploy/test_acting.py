"""Reactors as `bursar up` runs them: the clock, the policies, the pause."""

import asyncio

import pytest

from bus.events.policies import PauseChanged, PolicyChanged
from bus.memory import MemoryTransport
from deploy.runtime.reactors import acting
from reactors.culling.policy import CullingPolicy
from tests.deploy.ledgers import bursar, make_ledger
from tests.factories import pod_observed, said

WANTED = {"culling": ("shadow", CullingPolicy())}


def facts(transport, fact):
    return [fact.read(event) for event in transport.events if event.type == fact.wire_type]


async def test_a_policy_of_the_settings_is_said_once_over_restarts():
    transport = MemoryTransport()
    for _ in range(2):
        async with acting(transport, None, WANTED, name="c") as runner:
            assert "shadow" == runner.replica.policies.of("culling").mode

    assert ["shadow"] == [fact.mode for fact in facts(transport, PolicyChanged)]


@pytest.mark.simulated
async def test_the_clock_ticks_while_it_runs():
    transport = MemoryTransport()
    async with acting(transport, None, WANTED, name="c"):
        await asyncio.sleep(0.01)

    assert "clock.ticked" in [event.type for event in transport.events]


@pytest.mark.simulated
async def test_a_pause_is_known_within_five_seconds():
    transport = MemoryTransport()
    async with acting(transport, None, WANTED, name="c") as runner:
        fact = PauseChanged(is_paused=True, author="me")
        await transport.publish([said(fact, key="reactors", id="p", at=0)])
        async with asyncio.timeout(5):
            while not runner.replica.policies.is_paused:
                await asyncio.sleep(0.01)


@pytest.mark.nats
def test_a_recovery_is_said_so_that_reactors_hold_still(tmp_path, capsys):
    make_ledger(tmp_path, [pod_observed("p")])
    assert 0 == bursar("--data", tmp_path, "recover")
    assert 0 == bursar("--data", tmp_path, "pause", "--author", "me")

    # The recovered pod, the recovery, the pause.
    assert "event 3" in capsys.readouterr().err

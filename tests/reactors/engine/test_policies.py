"""Policies as facts: canonical, whole, and never an old one instead of an unreadable one."""

import subprocess
import sys

import pytest

from bus.events.policies import PolicyChanged
from reactors.culling.policy import CullingPolicy
from reactors.engine.policies import Policies, policy_changed
from reactors.engine.runner import announce
from tests.factories import said
from tests.reactors.engine.toys import Scene, ToyPolicy

PROGRAM = """
from reactors.culling.policy import CullingPolicy
from reactors.engine.policies import policy_changed
rule = {"namespace": "a*", "quiet": [{"zone": "Europe/Berlin", "start": "22:00", "end": "06:00"}]}
policy = CullingPolicy.model_validate({"rules": [rule], "primary_sources": list("fedcba")})
print(policy_changed("culling", "on", policy, author="me").digest)
"""


@pytest.mark.long
def test_equal_policies_give_equal_bytes_in_every_process():
    digests = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip

    assert 1 == len(digests)


def test_a_policy_that_was_said_is_read_back_equal():
    rule = {"team": "x", "quiet": [{"zone": "Asia/Tokyo", "start": "22:00", "end": "06:30"}]}
    policy = CullingPolicy.model_validate({"rules": [rule], "idle_seconds": 7})
    policies = Policies({"culling": CullingPolicy})
    policies.apply(policy_changed("culling", "on", policy, author="me"), None)

    assert policy == policies.of("culling").policy


def test_the_mode_is_part_of_the_digest():
    said = [policy_changed("toy", mode, ToyPolicy(), author="me").digest for mode in ("on", "off")]

    assert said[0] != said[1]


async def test_a_policy_that_this_program_cannot_read_leaves_its_reactor_without_one():
    at = Scene()
    await at.policy()
    newer = PolicyChanged(reactor="toy", mode="on", policy={"new": 1}, digest="d", author="me")
    await at.say(said(newer, key="toy", id="newer", at=5))

    assert (None, 1) == (at.runner.replica.policies.of("toy"), at.runner.parked)


async def test_a_policy_is_said_unless_the_history_says_so_already():
    at = Scene()
    for prefix in ("a", "a", "b"):
        at.runner.reached = lambda sequence: at.read()
        await announce(
            at.runner, at.transport, at.clock, "toy", "on", ToyPolicy(prefix=prefix), author="me"
        )
        at.clock.after(1)

    assert ["a", "b"] == [PolicyChanged.read(e).policy["prefix"] for e in at.transport.events]

"""Deciding and having it done: at most once, never late, never to another object. Source: docs/reliability.md."""

import asyncio

import msgspec
import pytest

from bus import crashpoints
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    ObservationError,
    PermissionDeniedError,
    PublishUnknownError,
    RequestRefusedError,
    UnknownRightsError,
)
from bus.events.clock import ClockTicked
from bus.events.decisions import EffectSettled, Restore, RestoreAsked
from bus.events.policies import PauseChanged
from bus.memory import MemoryTransport
from reactors.engine.runner import AGAIN_SECONDS, RIGHTS_TIMES, tick
from tests.factories import pod_observed, said
from tests.reactors.engine.toys import Scene, toy

pytestmark = pytest.mark.simulated


async def scene(mode="on", **policy):
    at = Scene()
    await at.policy(mode, **policy)
    await at.tick(0)
    await at.say(pod_observed("idle-1", at=1))
    return at


def outcomes(at):
    events = [e for e in at.transport.events if e.type == EffectSettled.wire_type]
    return [(fact.result, fact.message) for fact in map(EffectSettled.read, events)]


async def test_what_is_decided_is_done_once_and_its_outcome_said():
    at = await scene()
    await at.tick()
    await at.runner.work()
    await at.read()
    await at.runner.work()
    await at.tick()

    assert (1, [("done", "")]) == (len(at.effector.done), outcomes(at))


async def test_a_decision_tells_its_trigger_its_policy_and_its_reason():
    at = await scene()
    await at.tick()
    (decision,) = at.decisions()
    trigger = at.transport.events[decision.trigger - 1]

    assert ("clock.ticked", at.runner.replica.policies.of("toy").digest, "idle") == (
        trigger.type, decision.policy, decision.reason,
    )  # fmt: skip


async def test_in_shadow_mode_it_is_decided_and_recorded_and_nothing_is_done():
    at = await scene("shadow")
    await at.tick()
    await at.runner.work()

    assert (1, [], []) == (len(at.decisions()), at.effector.done, outcomes(at))


async def test_a_reactor_without_a_policy_or_switched_off_decides_nothing():
    at = await scene("off")
    await at.tick()

    assert [] == at.decisions()


async def test_a_reactor_that_is_off_does_what_a_person_asked_for_and_no_more():
    at = await scene("off")
    asked = RestoreAsked(decision="0" * 32, author="me")
    await at.say(said(asked, key=asked.decision, id="asked", at=at.at()))
    await at.tick()
    await at.runner.work()

    assert ([], 1) == (at.decisions(), len(at.decisions(Restore)))
    assert [one.id for one in at.decisions(Restore)] == at.effector.done


async def test_two_processes_decide_one_trigger_once():
    at = await scene()
    other = Scene(at.transport, at.clock)
    await other.read()
    await at.tick()
    await other.read()
    await at.tick()
    await other.read()

    assert 1 == len(at.decisions())


async def test_a_process_that_was_paused_appends_nothing_when_others_decided_meanwhile():
    at = await scene()
    sleeper = Scene(at.transport, at.clock)
    await sleeper.read()
    await at.tick()
    trigger = at.transport.events[at.decisions()[0].trigger - 1]
    await at.say(pod_observed("idle-2", at=2))
    # It knows more by now than it should, so it would decide something else.
    sleeper.runner.replica.states["toy"].pods["idle-2"] = at.runner.replica.states["toy"].pods[
        "idle-2"
    ]
    sleeper.runner.replica.states["toy"].stopped.add("idle-1")
    await sleeper.runner.apply(trigger)

    assert ["idle-1"] == [decision.key for decision in at.decisions()]


async def test_only_fresh_triggers_are_decided_on():
    at = await scene()
    at.clock.after(3_600)
    await at.say(said(ClockTicked(), key="leader", id="late", at=20))

    assert [] == at.decisions()


async def test_a_restarted_process_does_not_decide_on_history():
    at = await scene("shadow")
    await at.tick()
    again = at.new_runner(toy())
    following = asyncio.create_task(again.follow())
    await asyncio.wait_for(again.reached(at.transport.events[-1].sequence), 5)
    following.cancel()

    assert 1 == len(at.decisions())


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NotFoundError(), ("gone", "not_found")),
        (RequestRefusedError("no"), ("refused", "no")),
        (PermissionDeniedError("not you"), ("refused", "not you")),
    ],
    ids=["an object that is gone", "a request that is refused", "a permission that is missing"],
)
async def test_the_outcome_says_why_nothing_was_done(error, outcome):
    at = await scene()
    await at.tick()
    at.effector.fails = error
    await at.runner.work()

    assert [outcome] == outcomes(at)


@pytest.mark.parametrize(
    "error",
    [ClusterUnavailableError(), ConflictError(), MalformedJsonError(), ObservationError()],
    ids=lambda error: type(error).__name__,
)
async def test_what_fails_for_now_stays_outstanding_and_is_not_tried_at_each_move(
    error, monkeypatch
):
    at = await scene()
    await at.tick()
    at.effector.fails = error
    await at.runner.work()
    at.effector.fails = None
    await at.runner.work()
    assert [] == outcomes(at)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1e12)
    await at.runner.work()

    assert [("done", "")] == outcomes(at)


@pytest.mark.parametrize("times", [RIGHTS_TIMES, RIGHTS_TIMES + 1])
async def test_an_api_server_that_knows_no_right_of_ours_is_asked_again_some_times(
    times, monkeypatch
):
    at = await scene()
    await at.tick()
    now = 1e12
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    at.effector.fails = UnknownRightsError("who are you?")
    for _ in range(times):
        await at.runner.work()
        now += AGAIN_SECONDS + 1
    at.effector.fails = None
    await at.runner.work()

    assert [("done", "") if times == RIGHTS_TIMES else ("refused", "who are you?")] == outcomes(at)


async def late(at):
    at.clock.after(301)


async def active(at):
    await at.say(pod_observed("idle-1", version=2, at=11, annotations={"a": "b"}))


async def mode(at):
    await at.policy("shadow")


async def policy(at):
    await at.policy(prefix="other")


async def jumped(at):
    await at.tick(120)


async def back(at):
    at.clock.after(-120)


@pytest.mark.parametrize(
    ("happens", "outcome"),
    [
        (late, ("stale", "expired")),
        (active, ("stale", "active")),
        (mode, ("shadow", "mode_changed")),
        (policy, ("stale", "policy_changed")),
        (jumped, ("stale", "clock_jumped")),
        (back, ("stale", "clock_went_back")),
    ],
    ids=["too late", "newer activity", "shadow mode", "another policy", "a jump", "a clock set back"],
)  # fmt: skip
async def test_a_decision_that_was_overtaken_is_not_done(happens, outcome):
    at = await scene()
    await at.tick()
    await happens(at)
    await at.runner.work()

    assert ([], [outcome]) == (at.effector.done, outcomes(at))


async def test_a_pause_holds_what_is_outstanding_but_not_what_a_person_asked_for():
    at = await scene()
    await at.tick()
    await at.say(said(PauseChanged(is_paused=True, author="a"), key="reactors", id="p", at=11))
    await at.say(said(RestoreAsked(decision="d", author="a"), key="d", id="u", at=12))
    await at.tick()
    await at.runner.work()

    assert [one.id for one in at.decisions(Restore)] == at.effector.done


LABELS = [one for one in crashpoints.LABELS if one.startswith(("decision.", "effect."))]


class Killed(BaseException):
    """Ends a process as a signal does: nothing behind it runs."""


@pytest.mark.parametrize("label", LABELS)
async def test_killed_at_any_label_it_is_done_once_and_settled_once(label):
    at = await scene()

    def hook(reached):
        if reached == label:
            crashpoints.install(None)
            raise Killed(label)

    crashpoints.install(hook)
    try:
        await at.tick()
        await at.runner.work()
    except Killed:
        # The successor has nothing but the history.
        at.runner = at.new_runner(toy())
        await at.read()
    finally:
        crashpoints.install(None)
    await at.tick()
    await at.runner.work()
    await at.read()
    await at.runner.work()

    assert (1, 1, [("done", "")]) == (
        len(at.decisions()), len(at.effector.done), outcomes(at),
    )  # fmt: skip


class Careless(MemoryTransport):
    """Forgets what is expected: the negative control of docs/reliability.md."""

    async def publish(self, events, *, expect=None):
        return await super().publish(events)


@pytest.mark.parametrize(("transport", "wanted"), [(MemoryTransport, 1), (Careless, 2)])
async def test_only_the_expected_sequence_keeps_a_paused_process_from_deciding_again(
    transport, wanted
):
    at = Scene(transport())
    await at.policy()
    await at.say(pod_observed("idle-1", at=1))
    sleeper = Scene(at.transport, at.clock)
    await sleeper.read()
    await at.tick()
    # Asleep while the others decided, it does not read what they said before it decides by its own.
    own = at.transport.events[at.decisions()[0].trigger - 1]
    later = msgspec.structs.replace(own, id="later", sequence=own.sequence + 100)
    await sleeper.runner.apply(later)

    assert wanted == len(at.decisions())


class Unsure(MemoryTransport):
    """Stores and does not say so, once."""

    unsure = False

    async def publish(self, events, *, expect=None):
        sequences = await super().publish(events, expect=expect)
        if self.unsure:
            self.unsure = False
            raise PublishUnknownError(delay_seconds=0)
        return sequences


async def test_decisions_of_which_the_storing_is_unknown_are_published_again_before_anything_else():
    transport = Unsure()
    at = Scene(transport)
    await at.policy()
    await at.say(pod_observed("idle-1", at=1))
    await transport.publish([said(ClockTicked(), key="leader", id="t", at=0)])
    transport.unsure = True
    await at.read()

    assert (1, 1) == (len(at.decisions()), len(at.runner.replica.effects.outstanding))


async def test_two_clocks_tick_once():
    at = Scene()
    clocks = [asyncio.create_task(tick(at.transport, at.clock, "c")) for _ in range(2)]
    await asyncio.sleep(0.01)
    for clock in clocks:
        clock.cancel()

    assert ["clock.ticked"] == [event.type for event in at.transport.events]

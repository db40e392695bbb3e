"""Grant, store, lapse and release in every order: what is held never exceeds what is charged.

The promise holds while the watch is at most as late as the margin between the API server's deadline
(60 s) and the time after which a request counts as landed (75 s). docs/reliability.md L3, 6.5.
"""

import msgspec
import pytest

from bus.clock import SECOND_US
from reactors.admission.deciding.reconcile import Absent, declared, shows
from tests.reactors.admission.deciding.model import Instance, Rules, start
from tests.reactors.admission.deciding.search import (
    actions,
    explore,
    key,
    leak,
    replayed,
    violation,
)
from tests.thorough import tries

#: One object that changes its mind: two requests in flight, two observations on their way.
ONE = Instance(objects=1, queue=2)
#: Two objects and one place for both.
TWO = Instance(objects=2, demands=(2,), flights=1)
#: Two webhook processes, of which one decides on an old view.
STALE = Instance(objects=2, flights=1, is_stale=True)
#: An object that goes to and fro between two quotas.
MOVING = Instance(
    objects=1, demands=(1, 2), quotas=(("a", "", 2, ()), ("b", "", 2, ())), places=("a", "b")
)
#: A parent of 3, and a child that is created, raised, cut and deleted.
FAMILY = Instance(
    objects=1, demands=(2,), quotas=(("p", "", 3, ()), ("c", "p", 2, (1, 2, None))), places=("c",)
)  # fmt: skip


class NoExpectation(Rules):
    """A decision on an old view is stored as well."""

    expects = False


class Timer(Rules):
    """``ttl``: a grant that was not seen in use for 75 s is released, whatever a list would say."""

    def evidence(self, world, index):
        if world.objects[index].seen is None:
            return Absent(f"u{index}", world.now * SECOND_US)
        return super().evidence(world, index)


class Get(Rules):
    """``get``: a grant is released when the API server, asked for the object now, does not have it."""

    def evidence(self, world, index):
        thing = world.objects[index]
        if thing.truth is None and thing.seen is None:
            return Absent(f"u{index}", (world.now + 75) * SECOND_US)
        return super().evidence(world, index)


class Together(Rules):
    """What is seen counts as the last ask, though another may be on its way."""

    def shows(self, grant, seen):
        return shows(msgspec.structs.replace(grant, is_alone=True), seen)


class AtOnce(Rules):
    """What is seen of a quota settles every change of it."""

    def declared(self, draft, seen):
        fact = declared(draft, seen)
        return fact and msgspec.structs.replace(fact, settles=True)


class Forgotten(Rules):
    """A quota that is absent is gone, though it may be about to be created."""

    def declared(self, draft, seen):
        if seen.spec is None:
            seen = msgspec.structs.replace(seen, seen_us=seen.seen_us + 75 * SECOND_US)
        return declared(draft, seen)


@pytest.mark.thorough
@pytest.mark.parametrize(("instance", "least"), [(TWO, 5_000), (ONE, 20_000)][: tries(1, 2)])
def test_no_reachable_state_over_admits_and_none_that_is_quiet_leaks(instance, least):
    found = explore(start(instance))

    assert found.wrong == "", found.path
    assert found.states >= least
    assert found.checked > 100


@pytest.mark.parametrize("instance", [ONE, STALE, MOVING, FAMILY])
def test_no_near_state_over_admits_or_leaks(instance):
    found = explore(start(instance), most=4_000)

    assert found.wrong == "", found.path
    assert found.states == 4_000


@pytest.mark.slow
@pytest.mark.computes
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("instance", "states"),
    [
        (Instance(objects=2, touches=True), 500_000),
        # Each of these took as long for as many; together they would take CI half an hour.
        (STALE, 60_000),
        (MOVING, 60_000),
        (FAMILY, 60_000),
    ],
)
def test_many_states_neither_over_admit_nor_leak(instance, states):
    found = explore(start(instance), most=states)

    assert found.wrong == "", found.path


@pytest.mark.parametrize(
    ("instance", "rules"),
    [
        (STALE, NoExpectation()),
        (Instance(objects=1), Timer()),
        (Instance(objects=1), Get()),
        (Instance(objects=1), Together()),
        (FAMILY, AtOnce()),
        (
            FAMILY._replace(flights=1, quotas=(("p", "", 1, ()), ("c", "p", 1, (1, None)))),
            Forgotten(),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Rules) else "",
)
def test_a_broken_rule_is_caught(instance, rules):
    """Negative controls: if one passes, the model sees nothing."""
    found = explore(start(instance, rules), most=60_000)

    assert found.wrong
    states = replayed(instance, found.path, rules)
    assert violation(states[-1]) == found.wrong
    assert all(violation(state) == "" for state in states[:-1])


def test_a_watch_that_is_later_than_the_margin_breaks_the_promise(monkeypatch):
    """A limit of the product, told in docs/limits.md: its evidence is dated by when it was received."""
    monkeypatch.setattr("tests.reactors.admission.deciding.model.LAG", 30)

    assert explore(start(Instance(objects=1, touches=True)), most=20_000).wrong


def test_an_object_that_never_lands_lapses_and_one_that_does_stays_charged():
    failed, landed = (
        replayed(Instance(objects=1), [("ask", 0, "q", 2), *steps])[-1]
        for steps in ([], [("land", 0, 0), ("deliver", 0), ("keep", 0)])
    )

    assert ("", "") == (leak(failed), leak(landed))


def test_states_that_differ_by_the_names_of_objects_or_the_hour_are_one():
    one, other = (replayed(TWO, [("ask", index, "q", 2)])[-1] for index in (0, 1))

    assert key(one) == key(other)
    assert key(one) == key(one._replace(now=one.now)) != key(one.wait(15))
    assert key(start(TWO)) == key(start(TWO).wait(60))


def test_every_action_of_the_model_is_taken():
    """A world that cannot move proves nothing."""
    seen = set()
    for instance in (ONE._replace(touches=True), STALE, FAMILY):
        worlds = [start(instance)]
        for _ in range(4):
            following = {}
            for world in worlds:
                for action, *arguments in actions(world):
                    after = getattr(world, action)(*arguments)
                    if after is not None and key(after) != key(world):
                        seen.add(action)
                        following[key(after)] = after
            worlds = list(following.values())[:200]

    assert seen >= {"ask", "consider", "append", "land", "delete", "deliver", "touch", "keep"}
    assert seen >= {"propose", "land_quota", "deliver_quota", "keep_quota", "list", "wait"}


# --- found by the model, fixed in the product -------------------------------------------------------


def test_what_was_asked_for_twice_may_come_back_after_the_object_has_moved():
    """The sight of it proves that one of the requests has landed, not both."""
    steps = [
        ("ask", 0, "a", 1), ("land", 0, 0), ("ask", 0, "a", 1), ("ask", 0, "b", 1), ("deliver", 0),
        ("land", 0, 1), ("keep", 0), ("deliver", 0), ("keep", 0), ("land", 0, 0),
    ]  # fmt: skip

    assert [""] * 11 == [violation(state) for state in replayed(MOVING, steps)]


def test_a_change_to_what_stood_before_is_not_settled_by_the_sight_of_it():
    """Asked for 2 while 2 stood: seeing 2 is no proof that the request has landed."""
    steps = [
        ("propose", 1, 2), ("list",), ("deliver_quota", 1), ("keep_quota", 1), ("propose", 1, 1),
        ("land_quota", 1, 1), ("deliver_quota", 1), ("land_quota", 1, 0), ("keep_quota", 1),
    ]  # fmt: skip

    assert [""] * 10 == [violation(state) for state in replayed(FAMILY, steps)]

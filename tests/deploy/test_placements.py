"""What the scheduler decided of a pod, by `bursar why` as it was recorded, by `bursar schedule scores` derived again."""

import asyncio
import json

import msgspec
import pytest

from bus.events.decisions import SchedulingPassed
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger
from tests.scenario import Scenario

TERMS = msgspec.Raw(b'{"schedulerName":"bursar"}')


async def _morning():
    at = Scenario(reactor, {})
    await at.set_policy(SchedulingPolicy())
    nodes = [
        f.node_observed(name, n, at.at(), uid=f"uid-{name}", allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"}, **more)
        for n, (name, cpu, more) in enumerate(
            [("a", "4", {}), ("b", "4", {}), ("c", "2", {}), ("d", "64", {"unschedulable": True})], 1
        )
    ]  # fmt: skip
    pods = [
        f.pod_observed(uid, n, at.at(), node=None, cpu=cpu, memory="1Gi", constraints=TERMS)
        for n, (uid, cpu) in enumerate({"first": "3", "second": "3", "stuck": "9"}.items(), 10)
    ]
    await at.say(*nodes, *pods)
    (passed,) = at.facts(SchedulingPassed)
    on = {one.uid: passed.nodes[one.node] for one in passed.pods if one.node >= 0}
    seen = f.pod_observed("first", 20, at.at(), node=on["first"], cpu="3", constraints=TERMS)
    await at.say(seen)
    return at.transport.events, on


EVENTS, ON = asyncio.run(_morning())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("placements"), EVENTS)


@pytest.fixture
def asked(capsys, data):
    def run(*words):
        assert bursar(*words, "--cluster", "c", "--data", data, "-o", "json") == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_why_tells_the_recorded_decision_and_what_became_of_it(asked):
    (found,) = asked("why", "ns/first")

    assert (found["step"], found["reason"]) == ("placed", "bound")
    assert found["numbers"].startswith(
        f"node {ON['first']}; 2 of 4 nodes fit: {ON['first']} scores "
    )
    assert "NodeResourcesFit refuses 1 (Insufficient cpu)" in found["numbers"]
    assert "NodeUnschedulable refuses 1 (node(s) were unschedulable)" in found["numbers"]


def test_why_takes_the_id_of_a_pass(asked):
    (first,) = asked("why", "ns/first")
    found = asked("why", first["id"])

    assert {one["about"] for one in found} == {"Pod ns/first", "Pod ns/second"}
    assert {one["reason"] for one in found} == {"bound", "waiting"}


def test_why_tells_when_a_pod_that_waits_was_tried_and_is_tried_again(asked):
    (found,) = asked("why", "ns/stuck")

    assert found["step"] == "unschedulable"
    assert "request " in found["numbers"] and "tried 1 times, the last time at " in found["numbers"]
    assert "tried again by " in found["numbers"]


@pytest.mark.parametrize(("name", "fits"), [("first", {"a", "b"}), ("second", None)])
def test_the_whole_table_is_derived_again(asked, name, fits):
    """The second pod of a pass finds the room of the first one taken."""
    found = asked("schedule", "scores", f"ns/{name}")
    fitting = [one for one in found if one["score"] is not None]

    assert {one["node"] for one in fitting} == (fits or {ON["second"]})
    assert len(found) == 4
    assert all(one["score"] == sum(one["scores"].values()) for one in fitting)
    assert [one["score"] for one in fitting] == sorted((o["score"] for o in fitting), reverse=True)
    assert next(o for o in found if o["node"] == "d")["refused"] == {
        "NodeUnschedulable": ["node(s) were unschedulable"]
    }
    assert ON["first"] != ON["second"]


def test_people_see_the_best_nodes_and_who_refused_the_others(capsys, data):
    assert bursar("schedule", "scores", "ns/first", "--cluster", "c", "--data", data) == 0
    out = capsys.readouterr().out

    assert f": {ON['first']}, bound" in out
    assert "NodeUnschedulable: node(s) were unschedulable" in out
    assert "by the rules of this version" not in out


def test_a_pod_without_a_decision_is_said_to_have_none(capsys, data):
    assert bursar("schedule", "scores", "ns/stuck", "--cluster", "c", "--data", data) != 0
    assert "no decision of the scheduler about 'ns/stuck' is recorded" in capsys.readouterr().err


async def _crowded():
    at = Scenario(reactor, {})
    await at.set_policy(SchedulingPolicy(preemption="on"))
    await at.say(
        f.node_observed(
            "a", 1, at.at(), uid="uid-a", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"}
        ),
        f.pod_observed("low", 2, at.at(), node="a", cpu="4", priority=1),
    )
    high = {"node": None, "cpu": "3", "priority": 5, "constraints": TERMS}
    await at.say(f.pod_observed("high", 3, at.at(), **high))
    return at.transport.events


def test_why_tells_of_a_preemption_on_both_sides(tmp_path, capsys):
    data, found = make_ledger(tmp_path, asyncio.run(_crowded())), {}
    for name in ("low", "high"):
        assert bursar("why", f"ns/{name}", "--cluster", "c", "--data", data, "-o", "json") == 0
        found[name] = json.loads(capsys.readouterr().out)
    (evicted,) = found["low"]

    assert (evicted["step"], evicted["reason"]) == ("evict", "pod-preempted")
    assert evicted["numbers"] == "priority 1; for_priority 5; makes room for Pod ns/high"
    assert [one["step"] for one in found["high"]] == ["evict", "unschedulable"]
    assert found["high"][0]["about"] == "Pod ns/low"
    assert found["high"][1]["numbers"].endswith("nominated to a, ns/low evicted for it")


async def _held():
    """A pod that two others have to make room for, and one of less priority in the same pass."""
    at = Scenario(reactor, {})
    await at.set_policy(SchedulingPolicy(preemption="on"))
    await at.say(
        *(
            f.node_observed(
                name, n, at.at(), uid=f"uid-{name}", allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"}
            )
            for n, (name, cpu) in enumerate([("a", "4"), ("b", "2")], 1)
        ),
        f.pod_observed("low", 3, at.at(), node="a", cpu="2", priority=-1),
    )  # fmt: skip
    asking = {"high": ("4", 5), "late": ("1", 0)}
    await at.say(
        *(
            f.pod_observed(uid, n, at.at(), node=None, cpu=cpu, priority=priority, constraints=TERMS)
            for n, (uid, (cpu, priority)) in enumerate(asking.items(), 4)
        )
    )  # fmt: skip
    return at.transport.events


def test_a_node_that_the_same_pass_holds_for_another_pod_is_no_choice(tmp_path, capsys):
    data = make_ledger(tmp_path, asyncio.run(_held()))
    assert bursar("schedule", "scores", "ns/late", "--cluster", "c", "--data", data, "-o", "json") == 0  # fmt: skip
    found = {one["node"]: one for one in json.loads(capsys.readouterr().out)}

    assert found["b"]["score"] is not None
    assert found["a"]["score"] is None
    assert found["a"]["refused"] == {"NodeResourcesFit": ["Insufficient cpu"]}

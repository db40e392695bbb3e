"""``bursar simulate rebalance`` on small ledgers: planned moves, refused pods, and what limits the answer."""

import json

import pytest

from bus.events.constraints import Taint
from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import bursar, make_ledger, rows_of
from tests.reactors.rebalancing.clusters import NOW_S, Cluster
from tests.reactors.scheduling.worlds import ROOMY

POLICY = """
rebalancing:
  policy:
    plugins: [LowNodeLoad]
    low_node_load:
      pools: [{consecutive_abnormalities: 2, low: {cpu: 30}, high: {cpu: 50}}]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A tainted node with two pods of a workload and one bare pod, beside an empty node."""
    world = Cluster("n1", "n2").workload("a", ["n1"] * 2)
    world.pod("bare", "n1")
    world.node("n1", allocatable=ROOMY, taints=(Taint("retired", "", "NoSchedule"),))
    return make_ledger(tmp_path_factory.mktemp("rebalance"), world.events)


@pytest.fixture
def asked(capsys):
    def run(data, *arguments, code=0):
        found = bursar("simulate", "rebalance", "--data", data, *arguments)
        out, err = capsys.readouterr()
        assert found == code, err
        return out if code == 0 else err

    return run


def test_each_move_has_its_nodes_its_plugin_and_its_reason(asked, data):
    rows = json.loads(asked(data, "-o", "json"))
    moved, *stayed = rows

    assert (moved["verdict"], moved["source"], moved["destination"]) == ("move", "n1", "n2")
    assert (moved["plugin"], moved["reason"]) == (
        "RemovePodsViolatingNodeTaints", "node(s) had untolerated taint(s)",
    )  # fmt: skip
    assert (moved["workload"], moved["refused_by"], moved["gpu_milli_s"]) == ("ReplicaSet/a", None, 0)  # fmt: skip
    assert {
        one["pod"]: one["refused_by"] for one in stayed if one["plugin"] == moved["plugin"]
    } == {
        "a-1": "most-of-workload",
        "bare": "bare-pod",
    }


def test_nothing_is_written(asked, data):
    before = rows_of(data)
    asked(data)

    assert rows_of(data) == before


def test_people_see_the_verdict_first_and_what_limits_the_answer(asked, data):
    told = asked(data)
    assert told.splitlines()[0].startswith("VERDICT")
    assert "1 moves planned" in told and "no node has a measurement" in told
    assert "stay" not in asked(data, "--moves")


def test_the_answer_of_an_earlier_event_is_the_one_of_then(asked, data):
    (tainted,) = [n for n, one in enumerate(rows_of(data)[1], 1) if b"retired" in bytes(one[0].body)]  # fmt: skip

    def plugins(*arguments):
        return {row["plugin"] for row in json.loads(asked(data, "-o", "json", *arguments))}

    taints = "RemovePodsViolatingNodeTaints"
    assert taints in plugins("--at", tainted) and taints not in plugins("--at", tainted - 1)


@pytest.mark.parametrize(("rounds", "count"), [(1, 0), (2, 0), (3, 2)])
def test_rounds_on_record_count_for_the_anomaly(asked, tmp_path, rounds, count):
    world = Cluster("n1", "n2").workload("a", ["n1"] * 2).workload("b", ["n1"] * 2)
    for number in reversed(range(rounds)):
        at = NOW_S - 60 * number
        world.use("n1", "8", at=at, a_0="2", a_1="2", b_0="2", b_1="2").use("n2", "1", at=at)
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    data = make_ledger(tmp_path, world.events)
    rows = json.loads(asked(data, "--policy", policy, "-o", "json"))

    assert [row["verdict"] for row in rows if row["verdict"] == "move"] == ["move"] * count
    if not count:
        assert "overused for fewer than 3 rounds in a row: n1" in asked(data, "--policy", policy)


def test_a_policy_that_cannot_be_read_is_named_with_its_line(asked, data, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("LowNodeLoad", "HighNodeLoad", 1))
    assert "policy.yaml, line 4: rebalancing.policy.plugins" in asked(data, "--policy", path, code=Exit.USAGE)  # fmt: skip
    path.write_text("culling: {}")
    assert "section rebalancing is missing; example: rebalancing: {" in asked(
        data, "--policy", path, code=Exit.USAGE
    )

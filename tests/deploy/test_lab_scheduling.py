"""``bursar lab scheduling``: what people see of a scheduling policy that was tried on a small cluster."""

import json
from xml.etree import ElementTree

import pytest

from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import bursar, make_ledger
from tests.factories import node_observed, numbered
from tests.reactors.lab.placement_worlds import Job, World, policy

#: Two jobs that fit onto one node, and a large one that needs the other whole.
JOBS = [
    Job("small", 10, 2, runs=3_600, namespace="vision"),
    Job("other", 30, 2, runs=3_600, namespace="vision"),
    Job("large", 60, 8, gpu=0, runs=1_200, namespace="speech"),
]
PACKED = """
scheduling:
  policy:
    profiles:
      - fields: {NodeResourcesFit: {strategy: MostAllocated}}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    record = World({"n1": (4, 0), "n2": (8, 0)}, JOBS, policy()).run(6_000)
    return make_ledger(tmp_path_factory.mktemp("lab"), record.events)


@pytest.fixture
def tried(data, tmp_path, capsys):
    def ask(*arguments, texts=(PACKED,), code=0):
        files = []
        for number, text in enumerate(texts):
            path = tmp_path / f"policy-{number}.yaml"
            path.write_text(text)
            files += ["--policy", path]
        found = bursar("lab", "scheduling", *files, "--data", data, "--cluster", "c", *arguments)
        out, err = capsys.readouterr()
        assert found == code, err
        return out if code == 0 else err

    return ask


def test_shared_cards_count_as_the_ledger_charges_them(tried, tmp_path, capsys):
    jobs = [*JOBS[:2], Job("large", 60, 8, gpu=4, runs=1_200, namespace="speech")]
    record = World({"n1": (4, 0), "n2": (8, 4)}, jobs, policy()).run(6_000)
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    # A label that is absent keeps its last value.
    node = node_observed("n2", 0, further_labels=labels)
    shared = make_ledger(tmp_path, numbered([node, *record.events]))
    tried()
    policies = tmp_path / "policy-0.yaml"
    assert bursar("lab", "scheduling", "--policy", policies, "--data", shared, "--cluster", "c", "-o", "json") == 0  # fmt: skip
    speech = json.loads(capsys.readouterr().out)[0]

    assert speech["gpu_milli_s"] == 1_000 * speech["waited_less_s"] > 0


def test_packed_pods_leave_room_for_a_large_one_that_waited_an_hour(tried):
    rows = json.loads(tried("-o", "json"))
    speech, vision, total = rows
    assert (speech["sooner"], vision["elsewhere"], total["pods"]) == (1, 2, 3)
    assert 3_500 < speech["waited_less_s"] <= speech["waited_s"]
    assert speech["cpu_milli_s"] == 8_000 * speech["waited_less_s"]
    assert total["node_s"] > 0 and total["waited_less_s_low"] < total["waited_less_s_high"]

    pods = {one["name"]: one for one in json.loads(tried("--pods", "-o", "json"))}
    assert pods["large"]["change"] == "sooner" and pods["large"]["tried_node"] == "n2"
    assert {pods[name]["tried_node"] for name in ("small", "other")} == {"n1"}


def test_the_table_is_80_wide_and_says_how_long_nodes_had_pods(tried):
    out = tried()
    assert all(len(line) <= 90 for line in out.splitlines()[:6])
    assert "nodes had pods for" in out


def test_policies_are_compared_and_drawn(tried, tmp_path):
    spread = "scheduling: {policy: {}}"
    rows = json.loads(tried("-o", "json", "--svg", tmp_path / "a.svg", texts=(PACKED, spread)))
    assert [row["group"] for row in rows] == ["policy", "policy"]
    assert rows[0]["waited_less_s"] > 3_500 and rows[1]["waited_less_s"] == 0
    ElementTree.parse(tmp_path / "a.svg")


def test_what_cannot_be_tried_is_said(tried):
    for text, told in {
        "culling: {}": "section scheduling is missing; example: scheduling: {",
        "scheduling:\n  policy:\n    profile: 5": "line 3: scheduling.policy.profile: there is no such setting",
        "scheduling:\n  policy:\n    profiles: []": "line 3: scheduling.policy.profiles",
    }.items():
        assert told in tried(texts=(text,), code=Exit.USAGE)
    assert "--pods is about one" in tried("--pods", texts=(PACKED, PACKED), code=Exit.USAGE)
    assert "no pod came" in tried("--to", "2", code=Exit.USAGE)


def test_from_an_event_on_who_waits_there_waits_and_what_has_a_node_keeps_it(tried):
    cut = 20
    (one,) = [row for row in json.loads(tried("-o", "json", "--from", cut)) if row["name"]]
    assert (one["name"], one["pods"], one["recorded"], one["tried"]) == ("speech", 1, 1, 1)
    whole = json.loads(tried("-o", "json", "--from", "1"))[0]
    assert one["waited_s"] == whole["waited_s"] and abs(one["waited_less_s"]) <= 2

"""`bursar bench bind` on a trace of a few pods."""

import json

import pytest

from deploy.cli.program.exits import Exit
from deploy.cli.scheduling.bench import Policy
from reactors.scheduling.packing.catalogue import POLICIES
from tests.deploy.ledgers import bursar

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,16000,65536,2,T4\nn2,16000,65536,2,G2\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
share,1000,1024,1,400,,LS,Running,0,1,0
whole,4000,1024,2,1000,G2,LS,Running,0,1,0
"""


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS)
    (tmp_path / "arrivals").mkdir()
    (tmp_path / "arrivals" / "default-42-nodes.txt").write_text("n2\nn1\n")
    (tmp_path / "arrivals" / "default-42-pods.txt").write_text(
        "share\nshare\nwhole\nshare\nwhole\n"
    )
    return tmp_path


def test_what_becomes_of_each_order_of_arrival(trace, capsys):
    assert bursar("bench", "bind", "--trace", trace, "-p", "FirstFit", "-o", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)

    assert {key: row[key] for key in ("trace", "policy", "seed", "pods", "failed", "used_milli")} == {
        "trace": "default", "policy": "FirstFit", "seed": 42, "pods": 5, "failed": 2, "used_milli": 1200,
    }  # fmt: skip
    assert row["allocation"] == {"10": 10.0, "20": 20.0, "70": 20.0, "80": 30.0, "130": 30.0}


@pytest.mark.long
@pytest.mark.nats
def test_through_the_bus_the_reactor_decides_and_the_ledger_holds_it(trace, capsys):
    arguments = (
        "bench",
        "bind",
        "--trace",
        trace,
        "-p",
        "BestFit",
        "--through",
        "bus",
        "-o",
        "json",
    )
    assert bursar(*arguments) == 0
    (row,) = json.loads(capsys.readouterr().out)

    # All shares fit; whether a pod of two whole cards does, is up to where they lie.
    assert (row["pods"], row["failed"], row["used_milli"]) in ((5, 2, 1200), (5, 1, 3200))
    assert row["speed"] > 0


def test_the_table_has_every_policy(trace, capsys):
    assert bursar("bench", "bind", "--trace", trace) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines[2:]] == list(POLICIES)
    assert [one.value for one in Policy] == list(POLICIES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seed", "7"), "arrivals of seeds 42"),
        (("--pods", "other"), "no order of arrival of 'other'"),
    ],
)
def test_arrivals_that_are_not_there_are_named(trace, capsys, arguments, said):
    assert bursar("bench", "bind", "--trace", trace, *arguments) == Exit.USAGE
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_pod_that_no_list_has_is_named_with_its_line(trace, capsys):
    (trace / "arrivals" / "default-42-pods.txt").write_text("share\nmissing\n")

    assert bursar("bench", "bind", "--trace", trace) != 0
    assert "line 2: 'missing' is in no list" in capsys.readouterr().err

"""`bursar import openb` through processes: the totals of the trace to the integer, beside nobody and beside `bursar up`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.deploy.ledgers import bursar, process

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("BURSAR_SHARED", ROOT.parent / "shared"))
TRACE = SHARED / "traces" / "openb"
CASE = ROOT / "tests" / "cases" / "openb_ledger.json"

pytestmark = [
    pytest.mark.nats,
    pytest.mark.skipif(
        not TRACE.is_dir(), reason="needs the trace openb (Alibaba clusterdata, gpu-v2023)"
    ),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder after one import, in a process."""
    folder = tmp_path_factory.mktemp("openb")
    found = process("import", "openb", TRACE, "--data", folder, "-o", "json")

    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["published"] == 25_082
    return folder


def report(capsys, data, *arguments):
    capsys.readouterr()
    assert bursar("report", "--data", data, "--unit", "exact", "-o", "json", *arguments) == 0

    return json.loads(capsys.readouterr().out)


def expected():
    return json.loads(CASE.read_text())["default"]


def test_totals_are_exact(capsys, data):
    (row,) = report(capsys, data)

    assert (row["gpu_milli_s"], row["cpu_milli_s"]) == (185_294_426_970, 2_506_537_593_492)
    assert (row["pods"], row["held_pods"], row["held_s"]) == (8_152, 7_255, 210_028_342)


def test_groups_by_label_are_exact(capsys, data):
    want = expected()
    rows = report(capsys, data, "--by", "label:qos")
    found = {f"qos:{row['label:qos']}": row for row in rows}

    assert {name: row["pods"] for name, row in found.items()} == {
        name: count for name, count in want["counts"].items() if name.startswith("qos:")
    }
    for name, row in found.items():
        total = want["totals"][name]
        assert row["memory_mib_s"] == total["mem_mib_s"]
        assert {n: row[n] for n in ("held_pods", "held_s", "cpu_milli_s", "gpu_milli_s")} == {
            n: total[n] for n in ("held_pods", "held_s", "cpu_milli_s", "gpu_milli_s")
        }


@pytest.mark.parametrize("how", [(), ("--amounts",)])
def test_days_are_exact(capsys, data, how):
    rows = report(capsys, data, "--by", "day", *how)
    want = expected()["by_day"]

    assert len(rows) == 150 == len(want)
    assert [(row["gpu_milli_s"], row["cpu_milli_s"]) for row in rows] == [
        (day["gpu_milli_s"], day["cpu_milli_s"]) for day in want.values()
    ]


def test_again_beside_a_running_bursar_changes_nothing(capsys, data):
    before = report(capsys, data, "--by", "workload")
    up = subprocess.Popen(
        [Path(sys.executable).with_name("bursar"), "up", "--data", data],
        env={k: v for k, v in os.environ.items() if not k.startswith("KUBE")} | {"HOME": str(data)},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        for line in up.stderr:
            if "waiting" in line:
                break
        second = process("up", "--data", data, HOME=str(data))
        again = process("import", "openb", TRACE, "--data", data, "-o", "json")
        live = process("status", "--data", data, "--live", "-o", "json")
        beside = report(capsys, data, "--by", "workload")
    finally:
        began = time.monotonic()
        up.send_signal(signal.SIGTERM)
        up.communicate(timeout=30)

    assert (up.returncode, time.monotonic() - began < 10) == (0, True)
    assert (second.returncode, "is being written by bursar up" in second.stderr) == (5, True)
    assert json.loads(again.stdout)["published"] == 0
    assert (live.returncode, json.loads(live.stdout)["lag"]) == (0, 0)
    assert beside == before

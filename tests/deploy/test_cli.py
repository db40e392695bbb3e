"""The command line: every command explains itself, errors are one line and an exit code, options stand where people put them."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cli.program.exits import Exit
from tests import factories as f
from tests.deploy.ledgers import EVENTS, bursar, make_ledger

COMMANDS = [
    ("up",), ("import",), ("import", "openb"), ("import", "events"), ("status",), ("acct",), ("report",),
    ("sql",), ("replay",), ("verify",), ("recover",), ("export",), ("events",), ("parked",),
    ("parked", "list"), ("parked", "show"), ("parked", "redrive"), ("version",), (),
    ("get",), ("get", "quotas"), ("quota",), ("quota", "tree"), ("quota", "show"), ("quota", "explain"),
    ("quota", "check"), ("budget",), ("budget", "list"), ("budget", "credit"), ("why",),
    ("notebooks",), ("cull",), ("cull", "simulate"), ("cull", "undo"), ("pause",), ("resume",),
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("ledger"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(capsys, command):
    code = bursar(*command, "--help")
    text = capsys.readouterr().out

    assert code == 0
    assert "Usage: " in text
    if command not in ((), ("import",), ("parked",), ("get",), ("quota",), ("budget",), ("cull",)):
        assert all(option in text for option in ("--data", "--ledger", "--bus", "--output"))


@pytest.mark.parametrize(
    "arguments", [[], ["import"], ["parked"]], ids=["bursar", "import", "parked"]
)
def test_a_command_that_is_only_named_tells_its_help_line_by_line(capsys, arguments):
    code = bursar(*arguments)
    lines = capsys.readouterr().err.splitlines()

    assert (2, True, True) == (code, lines[0].startswith("Usage: "), "Commands:" in lines)


def test_help_tells_the_exit_codes(capsys):
    bursar("--help")
    text = " ".join(capsys.readouterr().out.split())

    assert all(f"{int(code)} " in text for code in Exit)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("repot",), 2, "No such command 'repot'. Did you mean 'report' or"),
        (("quota", "shwo"), 2, "Did you mean 'show'?"),
        (("tree",), 2, "Did you mean 'quota tree'?"),
        (("zzz",), 2, "No such command 'zzz'.  (see"),
        (("report", "--by", "tem"), 2, "cannot group by 'tem'"),
        (("report", "--by", "label:"), 2, "cannot group by 'label:'"),
        (("report", "--from", "someday"), 2, "'someday' is no time"),
        (("report", "--from", "2026-02-01", "--to", "2026-01-01"), 2, "ends before it begins"),
        (("report", "--tz", "Mars/Base"), 2, "there is no time zone 'Mars/Base'"),
        (("report", "--unit", "euros"), 2, "euros"),
        (("--ledger", "mysql://u:hunter2@h/d", "report"), 2, "ledger.url"),
        (("--bus", "nats://u:hunter2@h:0", "status"), 2, "no valid port"),
        (("--config", "/nowhere.yaml", "report"), 2, "/nowhere.yaml: cannot be read"),
        (("import", "events", "/nowhere.ndjson"), 2, "/nowhere.ndjson"),
        (("import", "openb", "/nowhere"), 2, "cannot be read"),
        (("parked", "show", "3"), 1, "sequence=3"),
        (("evictions", "--most", "0"), 2, "'--most': '0' is not a whole number from 1 to 100,000"),
        (("report", "--top", "0"), 2, "'--top': '0' is not a whole number of at least 1"),
        (("parked", "show", "x"), 2, "'SEQUENCE': 'x' is not a whole number of at least 1"),
        (("sql", "SELECT 1", "--timeout", "nan"), 2, "is not a number from 0.1 to 300"),
        (("status", "--max-lag", "few"), 2, "'--max-lag': 'few' is not a whole number  (see"),
        (("sql", "DROP TABLE events"), 2, "only reading is allowed"),
    ],
)
def test_an_error_is_one_line_and_a_code(capsys, data, arguments, code, said):
    found = bursar("--data", data, *arguments)
    out, err = capsys.readouterr()

    assert (found, out, err.count("\n")) == (code, "", 1)
    assert said in err
    assert "hunter2" not in err


def test_no_ledger_is_a_code_of_its_own_and_makes_none(capsys, tmp_path):
    code = bursar("report", "--data", tmp_path / "none")

    assert code == Exit.ABSENT
    assert "begin one with" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("before", [True, False])
def test_common_options_stand_before_or_after_the_command(capsys, data, before):
    common = ("--data", data, "-o", "json")
    code = bursar(*common, "report") if before else bursar("report", *common)

    assert code == 0
    assert json.loads(capsys.readouterr().out)[0]["pods"] == 2


def test_the_later_option_wins(capsys, data):
    bursar("--data", "/nowhere", "-o", "csv", "report", "--data", data, "-o", "json")

    assert json.loads(capsys.readouterr().out)[0]["held_pods"] == 1


def test_a_report_in_exact_units_is_the_contract(capsys, data):
    bursar(
        "report",
        "--data",
        data,
        "--by",
        "team,model",
        "--by",
        "label:app",
        "--unit",
        "exact",
        "-o",
        "json",
    )
    out, err = capsys.readouterr()
    held, waited = json.loads(out)

    assert held == {
        "team": "blue", "model": "A100", "label:app": None, "pods": 1, "held_pods": 1,
        "cpu_milli_s": 14_400_000, "gpu_milli_s": 7_200_000, "memory_mib_s": 7_372_800,
        "held_s": 7_200, "waiting_s": 0, "unknown_s": 0,
    }  # fmt: skip
    assert (waited["model"], waited["pods"], waited["held_pods"], waited["waiting_s"]) == (
        None,
        1,
        0,
        5_400,
    )
    assert "as of event 5, 2026-10-26T10:00:00Z" in err


def test_hours_and_percent(capsys, data):
    bursar("report", "--data", data, "-o", "json")
    bursar("report", "--data", data, "--by", "team", "--unit", "percent", "-o", "csv")
    out = capsys.readouterr().out
    hours, _, table = out.partition("]\n")

    row = json.loads(hours + "]")[0]
    assert (row["core_hours"], row["gpu_hours"], row["memory_gib_hours"]) == (4.0, 2.0, 2.0)
    assert table.splitlines()[1].startswith("blue,2,1,100.0,100.0,100.0")


def test_a_table_for_people_has_a_total_and_what_it_rests_on(capsys, data):
    bursar("report", "--data", data, "--by", "workload")
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]

    assert lines[-2][:3] == ["all", "2", "1"]
    assert lines[-1][:4] == ["as", "of", "event", "5,"]


def test_accounts_are_inert_in_csv(capsys, data):
    bursar("acct", "--data", data, "-o", "csv")
    rows = capsys.readouterr().out.splitlines()

    assert len(rows) == 3
    assert rows[1].startswith("ns,'=cmd|")


def test_the_schema_has_every_type(capsys):
    bursar("events", "--schema")
    schema = json.loads(capsys.readouterr().out)

    assert "pod.observed" in schema["x-types"]
    assert schema["$defs"]["PodObserved"]["properties"]["resources"]


def test_a_ledger_without_a_bus_has_a_status(capsys, data):
    code = bursar("status", "--data", data, "-o", "json")
    found = json.loads(capsys.readouterr().out)

    assert code == 0
    assert (found["sequence"], found["projected"], found["parked"], found["gaps"]) == (
        None,
        5,
        0,
        0,
    )
    assert (found["lag"], found["guard"], found["bus"]["running"]) == (None, [], False)


def test_status_counts_pods_by_flag(capsys, tmp_path):
    ends = [
        f.pod_vanished("observed", 11, 50),
        f.pod_observed("both", 12, 90, scheduled=20, phase="Failed", finished=(5,), listed=True),
    ]
    data = make_ledger(tmp_path, [*EVENTS, *ends])

    assert bursar("status", "--data", data, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["flags"] == {"clock": 1, "end_observed": 2, "gap": 1}
    assert bursar("status", "--data", data) == 0
    assert "1 gap" in capsys.readouterr().out


def test_a25_what_no_team_is_named_for_is_booked_to_unassigned_and_said(capsys, tmp_path):
    nobodys = [f.pod_observed(f"p{n}", n, namespace=f"lab-{n}") for n in range(1, 6)]
    closed = f.pod_vanished("p1", 9, 3_600, namespace="lab-1", deletion=3_600)
    data = make_ledger(tmp_path, [*EVENTS, *nobodys, closed])

    assert bursar("report", "--data", data, "--by", "team", "-o", "json") == 0
    out, err = capsys.readouterr()
    held = {row["team"]: row["core_hours"] for row in json.loads(out)}
    assert held == {"blue": 4.0, "unassigned": 9.0}
    assert (
        "booked to `unassigned`: 9.00 core-hours and 0.00 GPU-hours of lab-1, lab-2, lab-3" in err
    )
    assert "and 2 more namespaces, where no team is named" in err

    bursar("report", "--data", data, "--team", "blue")
    assert "unassigned" not in capsys.readouterr().out

    assert bursar("status", "--data", data, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)["unassigned"]
    assert found == {"pods": 4, "namespaces": ["lab-2", "lab-3", "lab-4", "lab-5"]}


def test_a25_where_every_pod_has_a_team_nothing_is_said(capsys, data):
    bursar("report", "--data", data, "-o", "json")
    bursar("status", "--data", data, "-o", "json")
    out, err = capsys.readouterr()

    assert "unassigned" not in err
    assert json.loads(out.partition("]\n")[2])["unassigned"] == {"pods": 0, "namespaces": []}


def test_an_export_onto_a_file_that_exists_is_one_line(capsys, data, tmp_path):
    """Covers the rows that were still being read: their cursor outlived its connection, and a traceback followed."""
    file = tmp_path / "h.ndjson"
    file.touch()
    code = bursar("export", file, "--data", data)
    gc.collect()

    assert (code, capsys.readouterr().err.count("\n")) == (Exit.USAGE, 1)


def test_history_comes_back_from_an_export(capsys, data, tmp_path):
    file = tmp_path / "h.ndjson.zst"
    codes = [bursar("export", file, "--data", data, "-o", "json"), bursar("verify", "--data", data)]
    codes.append(bursar("replay", "--data", data, "-o", "json"))
    out = capsys.readouterr().out

    assert codes == [0, 0, 0]
    assert json.loads(out[out.rindex("\n{") :])["equal"] is True
    assert file.stat().st_size > 0


@pytest.mark.long
def test_a_closed_pipe_is_no_failure(data):
    reader, writer = os.pipe()
    os.close(reader)
    found = subprocess.run(
        [Path(sys.executable).with_name("bursar"), "acct", "--data", data],
        stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)

    assert (found.returncode, found.stderr) == (Exit.PIPE, "")

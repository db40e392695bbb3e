"""What people type: words for periods, filters, orders, names that are not there, and hints that work where they are read."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import typer

from deploy.cli.program.exits import Exit
from deploy.cli.program.program import program
from deploy.cli.times import second_of, stamp
from deploy.hints import hint
from deploy.settings.near import absent
from tests import factories as said
from tests.deploy.ledgers import EVENTS, bursar, make_ledger, process

UTC, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
#: Wednesday, 2026-11-18T10:30:00Z.
MOMENT = 1_794_997_800
HOUR = 3_600
LIVED = [
    *EVENTS,
    said.namespace_observed("lab", team="red"),
    said.node_observed("big", model="H100"),
    said.pod_observed("a", 1, 0, cpu="1", gpu=8, node="big", namespace="lab", labels={"app": "x"}),
    said.pod_observed("b", 1, 0, cpu="6", namespace="lab", labels={"app": "y"}),
    said.pod_vanished(
        "b", 9, 2 * HOUR, cpu="6", namespace="lab", deletion=2 * HOUR, labels={"app": "y"}
    ),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("ledger"), LIVED)


def told(capsys, *arguments):
    code = bursar(*arguments, "-o", "json")
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize(
    ("text", "zone", "begins"),
    [
        ("now", UTC, "2026-11-18T10:30:00Z"), ("7d", UTC, "2026-11-11T10:30:00Z"),
        ("12h", UTC, "2026-11-17T22:30:00Z"), ("90m", UTC, "2026-11-18T09:00:00Z"),
        ("2w", UTC, "2026-11-04T10:30:00Z"), ("today", UTC, "2026-11-18T00:00:00Z"),
        ("yesterday", UTC, "2026-11-17T00:00:00Z"), ("yesterday", BERLIN, "2026-11-16T23:00:00Z"),
        ("week", UTC, "2026-11-16T00:00:00Z"), ("month", UTC, "2026-11-01T00:00:00Z"),
        # In October clocks were set back: the month began in summer time.
        ("month", BERLIN, "2026-10-31T23:00:00Z"), ("year", BERLIN, "2025-12-31T23:00:00Z"),
        ("2026-11", UTC, "2026-11-01T00:00:00Z"), ("2026-10", BERLIN, "2026-09-30T22:00:00Z"),
        ("2026", UTC, "2026-01-01T00:00:00Z"), ("2026-11-21", UTC, "2026-11-21T00:00:00Z"),
        ("2026-11-17T22:30Z", BERLIN, "2026-11-17T22:30:00Z"),
    ],
)  # fmt: skip
def test_a_period_is_named_as_people_name_it(text, zone, begins):
    assert stamp(second_of(text, zone, "--from", MOMENT)) == begins


@pytest.mark.parametrize("text", ["2026-13", "0000-01", "7y", "someday", "99999999d", "-7d", ""])
def test_what_names_no_time_is_refused_with_what_does(text):
    with pytest.raises(typer.BadParameter, match="yesterday"):
        second_of(text, UTC, "--from", MOMENT)


def test_words_count_from_the_newest_event_so_that_an_old_ledger_answers(capsys, data):
    (whole,) = told(capsys, "report", "--data", data)
    (lately,) = told(capsys, "report", "--from", "1h", "--data", data)
    (today,) = told(capsys, "report", "--from", "today", "--data", data)

    assert 0 < lately["core_hours"] < whole["core_hours"] == today["core_hours"]


@pytest.mark.parametrize(
    ("options", "pods"),
    [
        (("--node", "big"), "a"), (("--model", "H100"), "a"), (("-l", "app=y"), "b"),
        (("-l", "app=x", "-l", "app=x"), "a"), (("-n", "lab"), "ab"), (("--team", "red", "--model", "A100"), "b"),
        (("-A", "--team", "red"), "ab"),
    ],
    ids=str,
)  # fmt: skip
def test_filters_keep_the_same_pods_in_accounts_and_in_reports(capsys, data, options, pods):
    rows = told(capsys, "acct", *options, "--data", data)
    held_s = sum(row["cpu_milli"] * row["held_s"] for row in rows)

    assert {row["pod"] for row in rows} == set(pods)
    for more in ((), ("--amounts",)):
        (report,) = told(capsys, "report", *options, *more, "--unit", "exact", "--data", data)
        assert report["cpu_milli_s"] == held_s


def test_a_workload_is_one_filter(capsys, data):
    rows = told(capsys, "acct", "--data", data)
    named = next(row["workload"] for row in rows if row["pod"] == "a")

    assert {"a"} <= {r["pod"] for r in told(capsys, "acct", "--workload", named, "--data", data)}


def test_the_largest_come_first(capsys, data):
    by_gpu = told(capsys, "report", "--by", "team", "--top", "1", "--data", data)
    by_core = told(capsys, "report", "--by", "team", "--sort", "CORE-HOURS", "--data", data)
    longest = told(capsys, "acct", "--sort", "cores", "--top", "1", "--data", data)

    assert [row["team"] for row in by_gpu] == ["red"]
    assert [row["core_hours"] for row in by_core] == sorted(
        (row["core_hours"] for row in by_core), reverse=True
    )
    assert [row["pod"] for row in longest] == ["b"]


def test_a_table_of_the_largest_says_how_many_there_are(capsys, data):
    bursar("report", "--by", "team", "--top", "1", "--data", data)
    lines = capsys.readouterr().out.splitlines()

    assert "the first 1 of 2 groups" in lines
    assert any(line.startswith("all ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (("report", "--team", "blu"), "there is no team 'blu'; is it blue?"),
        (("report", "--amounts", "--team", "blu"), "is it blue?"),
        (("acct", "--pod", "waits-"), "there is no pod 'waits-'; is it waits?"),
        (("acct", "-n", "lba"), "is it lab?"), (("acct", "--node", "bigg"), "is it big?"),
        (("acct", "--model", "H1000"), "is it H100 or A100?"), (("report", "--quota", "q"), "there is no quota at all"),
        (("quota", "show", "q"), "there is no quota 'q'"), (("quota", "explain", "q"), "there is no quota 'q'"),
        (("budget", "list", "q"), "there is no quota 'q'"), (("queue", "show", "q"), "there is no quota 'q'"),
        (("queue", "hold", "lab/q"), "there is no waiting workload"),
        (("why", "lab/aa", "--cluster", "c"), "is it lab/a"), (("events", "--key", "bound-"), "is it bound?"),
        (("events", "--type", "pod.obsrved"), "is it pod.observed"), (("cull", "undo", "x"), "there is no cull 'x'"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_there_is_an_error_that_says_what_is_near(capsys, data, arguments, near):
    code = bursar(*arguments, "--data", data)
    out, err = capsys.readouterr()

    assert (code, out, err.count("\n")) == (Exit.FAILED, "", 1)
    assert near in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("report", "-l", "app"), "'app' is not KEY=VALUE"), (("acct", "-A", "-n", "lab"), "either one namespace or all"),
        (("report", "--sort", "beauty"), "there is no column 'beauty': pods, held_pods, core_hours"),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_be_used_is_a_usage_error(capsys, data, arguments, why):
    assert bursar(*arguments, "--data", data) == Exit.USAGE
    assert why in capsys.readouterr().err


def test_an_export_writes_over_nothing_unless_forced(capsys, data, tmp_path):
    file = tmp_path / "h.ndjson"
    file.write_text("mine")

    assert bursar("export", file, "--data", data) == Exit.USAGE
    assert "--force" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert bursar("export", file, "--force", "--data", data) == 0
    assert file.read_text().count("\n") == len(LIVED)
    assert os.listdir(tmp_path) == ["h.ndjson"]


def test_h_and_version_are_understood_everywhere(capsys):
    assert bursar("--version") == 0
    assert re.fullmatch(r"bursar \d+\.\d+\.\d+\n", capsys.readouterr().out)
    for command in ((), ("report",), ("quota",), ("quota", "show")):
        assert bursar(*command, "-h") == 0
        assert "Usage: " in capsys.readouterr().out


@pytest.mark.long
def test_a_shell_completes_commands_and_options():
    for words, found in (
        ("bursar que", "queue"),
        ("bursar quota sh", "show"),
        ("bursar report --mo", "--model"),
    ):
        answer = process(
            _BURSAR_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" "))
        )
        assert found in answer.stdout.split(), answer.stderr
    assert "--install-completion" in process("--help").stdout


@pytest.mark.long
def test_a_watched_question_is_answered_again(data):
    started = subprocess.Popen(
        [Path(sys.executable).with_name("bursar"), "report", "--watch", "--data", data],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    heads = 0
    ends = time.monotonic() + 60
    while heads < 2 and time.monotonic() < ends:
        heads += "CORE-HOURS" in started.stdout.readline()
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=30)

    assert (heads, started.returncode) == (2, 130)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_hint_names_a_program_that_can_be_typed(monkeypatch, tmp_path, is_known):
    own = tmp_path / ".venv" / "bin" / "bursar"
    own.parent.mkdir(parents=True)
    own.write_text("")
    own.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(own), "up"])
    monkeypatch.setenv("PATH", str(own.parent) if is_known else "/usr/bin")

    assert hint("status") == ("bursar status" if is_known else ".venv/bin/bursar status")


@pytest.mark.long
def test_an_absent_ledger_names_a_command_that_works_here(tmp_path):
    if shutil.which("bursar", path="/usr/bin"):
        pytest.skip("another bursar is installed")
    own = str(Path(sys.executable).with_name("bursar"))
    found = process("report", "--data", tmp_path / "none", PATH="/usr/bin")
    named = re.search(r"`(\S+) up`", found.stderr)[1]

    assert Path(named).absolute() == Path(own).absolute()


def test_the_help_of_every_common_filter_is_there(capsys):
    for name in ("report", "acct"):
        text = " ".join(p.opts[0] for p in program().get_command(None, name).params)
        assert all(one in text for one in ("--workload", "--node", "--model", "--label", "--top"))


def test_names_are_told_before_uids_to_whoever_mistyped_one():
    uid = "00ff1cdf-02ce-5ce8-a9db-d7d4b6833960"

    assert "there are team/train" in str(absent("pod", "vision", [uid, "team/train"]))
    assert uid in str(absent("pod", "vision", [uid]))

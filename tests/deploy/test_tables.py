"""Tables: on a terminal of 80 columns every one reads well; in a pipe nothing is left out, whatever the terminal.

Each table of the program is asked for on a real terminal (a pseudo-terminal of its own width), with names as long as
Kubernetes lets them be.
"""

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from deploy.cli.rendering.layout import Cell, Texts, cut, length, widths, wrapped
from deploy.cli.rendering.words import duration, memory, moment, thousandths
from tests import factories as said
from tests.deploy import long_names
from tests.deploy.ledgers import EVENTS, a_hub, bursar, make_ledger, process

LONG, TEAM = long_names.POD, long_names.TEAM
EVENTS_LONG = [
    *EVENTS,
    said.namespace_observed("a-namespace-with-a-name-that-is-long", team=TEAM),
    said.pod_observed(
        "long", 3, 60, cpu="1500m", gpu=2, name=LONG, namespace="a-namespace-with-a-name-that-is-long"
    ),
]  # fmt: skip

TABLES = [
    ("report", "--by", "team,day"), ("report", "--by", "workload,model"), ("acct",), ("events",), ("get", "quotas"),
    ("quota", "tree"), ("budget", "list"), ("budget", "list", "--entries"), ("queue", "show"), ("notebooks",),
    ("evictions",), ("parked", "list"), ("cull", "simulate", "--idle", "1h"),
    ("schedule", "queue"), ("jobs", "list"), ("jobs", "agreement"),
]  # fmt: skip
WORKLOAD = f"{long_names.NAMESPACE}/{long_names.JOB}"
#: A history of `long_names`, and what is asked of it. FILE stands for a file with a pod.
OTHERS = [
    ("devices", "devices"), ("jobs", "jobs", "list"), ("jobs", "jobs", "hours"), ("jobs", "jobs", "hours", "--by", "attempt"),
    ("jobs", "jobs", "show", WORKLOAD), ("jobs", "history", "segments"), ("quotas", "get", "quotas"), ("quotas", "quota", "tree"),
    ("quotas", "quota", "explain", long_names.QUOTA), ("quotas", "quota", "explain", WORKLOAD), ("quotas", "diff", "--from", "1"),
    ("shadow", "jobs", "list"), ("shadow", "jobs", "agreement"), ("shadow", "jobs", "agreement", "--differences"),
    ("quotas", "agreement"), ("bound", "schedule", "agreement"), ("hub", "clusters"), ("quotas", "why", WORKLOAD),
    ("spent", "quota", "forecast"), ("spent", "budget", "forecast"), ("spent", "budget", "list"), ("pods", "schedule", "queue"),
    ("pods", "schedule", "scores", f"{long_names.NAMESPACE}/{LONG}"), ("pods", "schedule", "check", "FILE"),
]  # fmt: skip
#: Rows of one thing, name by name.
SINGLES = [("quotas", "status"), ("quotas", "quota", "show", long_names.QUOTA)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("ledger"), EVENTS_LONG)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A data folder for each history of `long_names`; that of training jobs is sealed in segments."""
    found = {}
    for name, history in long_names.HISTORIES.items():
        found[name] = make_ledger(tmp_path_factory.mktemp(name), list(history()))
    found["hub"] = tmp_path_factory.mktemp("hub")
    a_hub(found["hub"], {TEAM: 60})
    with mock.patch.dict(os.environ, {"BURSAR_HISTORY__SEGMENT_EVENTS": "10"}):
        assert bursar("history", "seal", "--data", found["jobs"]) == 0
    return found


@pytest.fixture(scope="module")
def pod_file(tmp_path_factory):
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    found = tmp_path_factory.mktemp("manifest") / "pod.json"
    found.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": LONG[:63], "namespace": long_names.NAMESPACE},
        "spec": {"schedulerName": "bursar", "containers": [container]},
    }))  # fmt: skip
    return str(found)


def on_terminal(width, *arguments, code=0):
    """What a command writes onto a terminal of this width, without its styles."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE", "COLUMNS"))
    }
    with ThreadPoolExecutor(1) as reader:
        written = reader.submit(read_all, ours)
        with (
            open(theirs, "w") as terminal,
            mock.patch.multiple(sys, stdout=terminal, __stdout__=terminal),
            mock.patch.dict(os.environ, clean, clear=True),
        ):
            ended = bursar(*arguments)
        found = written.result(60)
    os.close(ours)
    assert ended == code
    return re.sub(r"\x1b\[\d*m", "", found.decode()).replace("\r\n", "\n").splitlines()


def read_all(terminal):
    """Everything that is written at the other end of a terminal until it is closed."""
    found = b""
    try:
        while part := os.read(terminal, 65_536):
            found += part
    except OSError:
        pass  # the other end was closed: that is how a terminal ends
    return found


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("arguments", TABLES, ids=" ".join)
def test_every_table_fits_the_terminal(data, arguments, width):
    lines = on_terminal(width, *arguments, "--data", data)

    assert all(length(line) <= width for line in lines), lines
    assert set(lines[1]) == {"─"}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("asked", OTHERS, ids=" ".join)
def test_every_table_of_long_names_fits_the_terminal_with_its_words_whole(
    folders, pod_file, asked, width
):
    folder, *arguments = [pod_file if one == "FILE" else one for one in asked]
    # The ledger there has events of a cluster with another name.
    code = 7 if "clusters" in arguments else 0
    lines = on_terminal(width, *arguments, "--data", folders[folder], code=code)
    start = next(number for number, line in enumerate(lines) if set(line) == {"─"})

    assert all(length(line) <= width for line in lines), lines
    assert lines[start + 1] != "none"
    # Neither a time nor a word of the program is ever shortened.
    text = "\n".join(lines)
    assert not re.search(r"\d{4}-\d\S*…|…\S*\d\d:\d\dZ", text), text
    assert not re.search(r"\b(unsch|Node[A-Z]?\w*)…|limits\.\w*…\w*:", text), text


def test_different_names_of_a_column_stay_different_when_shortened():
    keys = [f"limits.dra/{part}.nvidia.com" for part in ("gpu", "mig-1g", "mig-7g")]
    first = Texts("KEY", [Cell(key) for key in keys])
    other = Texts("USED", [Cell("x" * 40, "fixed")], drop=1)

    for room in (26, 30, 66, 68, 90):
        width, rest = widths([first, other], room, 2)
        assert len({cut(key, width) for key in keys}) == 3, room
        assert (rest == 40) == (room >= 68)
    # Without room for distinct names they are shortened as far as needed, and equal names are one.
    assert widths([first], 18, 2) == [18]
    assert widths([Texts("NAME", [Cell("a" * 40)] * 2)], 20, 2) == [20]


def test_keys_of_settings_are_whole_on_a_terminal():
    lines = on_terminal(80, "config", "show")

    assert all(length(line) <= 80 for line in lines), lines
    assert any(line.startswith("admission.allow_unauthenticated ") for line in lines)
    assert not any("…" in line.split()[0] for line in lines)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("asked", SINGLES, ids=" ".join)
def test_what_is_told_name_by_name_fits_but_for_a_name_that_is_longer(folders, asked, width):
    folder, *arguments = asked
    for line in on_terminal(width, *arguments, "--data", folders[folder]):
        assert length(line) <= width or " " not in line[16:].strip(), line


def test_what_matters_most_has_room_on_80_columns(folders, pod_file):
    queue = on_terminal(80, "schedule", "queue", "--data", folders["pods"])
    links = on_terminal(80, "clusters", "--data", folders["hub"], code=7)
    check = on_terminal(80, "schedule", "check", pod_file, "--data", folders["pods"])

    assert {"POD", "STATE", "NODE", "REASON"} <= set(queue[0].split())
    assert "unschedulable" in "".join(queue)
    assert {"CLUSTER", "LINK", "TROUBLE"} <= set(links[0].split())
    assert "NodeUnschedulable 1" in "".join(check)


def test_a_table_without_rows_says_none(data, capsys):
    assert bursar("schedule", "queue", "--data", data) == 0

    _, rule, none, _ = capsys.readouterr().out.splitlines()
    assert (set(rule), none) == ({"─"}, "none")


def test_a_long_name_is_shortened_in_the_middle_and_never_broken(data):
    lines = on_terminal(80, "acct", "--data", data)
    (row,) = (line for line in lines if "…" in line)

    assert row.startswith("a-name")
    assert row.split()[0].endswith("fjftz")
    assert "no room for" in lines[-1] + lines[-2]
    assert "NODE" in lines[-1] + lines[-2]


def test_a_wide_table_has_every_column_whole_whatever_the_terminal(data):
    head, _, *rows = on_terminal(80, "acct", "-o", "wide", "--data", data)

    assert {"UID", "NODE", "TO", "WORKLOAD", "FLAGS"} <= set(head.split())
    assert any(LONG in row for row in rows)


@pytest.mark.long
def test_in_a_pipe_nothing_is_left_out_whatever_the_terminal(data):
    narrow = process("acct", "--data", data, COLUMNS="40").stdout
    broad = process("acct", "--data", data, COLUMNS="300").stdout

    assert narrow == broad
    assert f"a-namespace-with-a-name-that-is-long/{LONG}" in narrow
    assert "…" not in narrow
    assert "\x1b" not in narrow


def test_amounts_are_in_words_for_people_and_exact_for_programs(data, capsys):
    assert bursar("acct", "--pod", LONG, "--data", data) == 0
    table = capsys.readouterr().out.splitlines()[2].split("  ")
    assert bursar("acct", "--pod", LONG, "-o", "csv", "--data", data) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))

    assert [cell.strip() for cell in table if cell.strip()][1:6] == [
        "2026-10-26T08:00Z", "2h 00m", "1.5", "1 GiB", "2",
    ]  # fmt: skip
    assert (row["held_s"], row["cpu_milli"], row["memory_mib"]) == ("7200", "1500", "1024")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (duration(59), "59s"), (duration(60), "1m 00s"), (duration(7_500), "2h 05m"),
        (duration(200_000), "2d 07h"), (duration(0), None), (thousandths(1_500), "1.5"),
        (thousandths(100_000), "100"), (thousandths(1), "0.001"), (memory(512), "512 MiB"),
        (memory(16 * 1024), "16 GiB"), (memory(1536 * 1024), "1.5 TiB"),
        (moment("2026-11-21T09:00:59Z"), "2026-11-21T09:00Z"), (moment(None), None),
    ],
)  # fmt: skip
def test_units_are_those_that_people_use(found, text):
    assert found == text


def test_the_least_important_column_goes_first():
    columns = [
        Texts("NAME", [Cell("x" * 40)]), Texts("A", [Cell("1" * 20, "figure")], 1),
        Texts("B", [Cell("2" * 20, "figure")], 2), Texts("C", [Cell("3" * 20, "figure")]),
    ]  # fmt: skip

    assert widths(columns, 200, 2) == [40, 20, 20, 20]
    assert widths(columns, 70, 2) == [26, 20, 0, 20]
    assert widths(columns, 45, 2) == [23, 0, 0, 20]
    assert widths(columns, None, 2) == [40, 20, 20, 20]


def test_texts_are_cut_in_their_middle_and_sentences_between_words():
    assert cut("training-1-d8vfl", 9) == "trai…8vfl"
    assert [length(cut("日本語の名前です", n)) <= n for n in range(1, 18)] == [True] * 17
    assert wrapped("spent 100 of 90 core-hours", 10) == ["spent 100", "of 90", "core-hours"]
    assert wrapped("one", None) == ["one"]


def test_a_free_query_with_no_room_stands_row_by_row(data, capsys):
    query = "SELECT * FROM v1_pod_runs LIMIT 2"
    lines = on_terminal(80, "sql", query, "--data", data)

    assert [line for line in lines if line.startswith("row ")] == ["row 1", "row 2"]
    assert all(length(line) <= 80 for line in lines if " " in line[30:])
    assert bursar("sql", query, "--data", data) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4

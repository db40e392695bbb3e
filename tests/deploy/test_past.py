"""``--at``: what a command says as of an event is what it said when the history ended there."""

import json
import os
import re
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace

import msgspec
import pytest
import sqlalchemy as sa

from bus.clock import format_stamp
from deploy.cli.past import FOLDER
from deploy.cli.program.exits import Exit
from projections.catalogue import MODEL
from projections.engine import past
from projections.engine.past import past_rows
from projections.engine.replay import Rebuilt
from projections.engine.store import Store, engine
from tests.deploy.ledgers import bursar, make_ledger
from tests.projections.engine.archives import fill, ledger
from tests.recording import recorded

LENGTH = 2_400
QUESTIONS = (
    ("report", "--by", "team,model"),
    ("acct", "-o", "csv"),
    ("quota", "tree"),
    ("quota", "explain", "vision"),
    ("get", "quotas"),
    ("queue", "show"),
    ("notebooks",),
    ("devices",),
    ("budget", "list"),
    ("evictions",),
    ("jobs", "hours"),
    ("schedule", "queue"),
    ("events", "-o", "json"),
    ("parked", "list"),
    ("sql", "SELECT count(*), max(sequence), max(id) FROM events"),
    ("sql", "SELECT * FROM v1_usage_by_day ORDER BY 1, 2, 3, 4, 5"),
    ("sql", "SELECT * FROM v1_pod_runs ORDER BY uid"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("whole"), recorded()[:LENGTH])


def answers(capsys, data, *more):
    found = {}
    for question in QUESTIONS:
        code = bursar(*question, "--data", data, *more)
        out, err = capsys.readouterr()
        assert code == 0, err
        found[question] = out
    return found


@pytest.mark.parametrize("sequence", sorted(Random(5).sample(range(1, LENGTH), 3)))
def test_every_answer_is_that_of_a_history_that_ended_there(sequence, data, tmp_path, capsys):
    ended = make_ledger(tmp_path, recorded()[:sequence])

    assert answers(capsys, ended) == answers(capsys, data, "--at", sequence)


def test_a_time_is_the_last_event_before_anything_later_was_observed(data, capsys):
    events = recorded()[:LENGTH]
    moment_us = events[1_500].time_us
    known = next(e.sequence for e in events if e.time_us > moment_us // 10**6 * 10**6 + 999_999) - 1
    stamp = format_stamp(moment_us // 10**6 * 10**6)
    assert bursar("report", "--data", data, "--at", stamp) == 0
    _, err = capsys.readouterr()

    assert f"as it was after event {known:,} of {LENGTH:,}" in err


@pytest.mark.parametrize("off_us", [10**15, -(10**15)], ids=["ahead", "behind"])
@pytest.mark.parametrize("begins", [600, 1_300])
def test_a_clock_that_was_wrong_for_a_while_moves_nothing(off_us, begins, tmp_path, capsys):
    events = recorded()[:1_500]
    wrong = next(n for n in range(begins, begins + 100) if events[n].type == "clock.ticked")
    for n in range(wrong, wrong + 40):
        events[n] = msgspec.structs.replace(events[n], time_us=events[n].time_us + off_us)
    data = make_ledger(tmp_path, events)
    stamp = format_stamp(events[1_200].time_us // 10**6 * 10**6)
    assert bursar("report", "--data", data, "--at", stamp) == 0
    _, err = capsys.readouterr()
    found = int(re.search(r"event ([\d,]+) of", err)[1].replace(",", ""))

    assert 1_150 < found < 1_260


@pytest.mark.parametrize("at", ["0", "2401", "9" * 400, "1999-01", "fish", "-1", "", "1; DROP"])
def test_a_moment_that_there_is_not_is_refused_by_name(at, data, capsys):
    code = bursar("report", "--data", data, "--at", at)
    _, err = capsys.readouterr()

    assert code == Exit.USAGE
    assert "--at" in err and ("the events 1 to 2,400" in err or "is no time" in err)


def test_a_later_moment_goes_on_from_the_nearest_and_few_are_kept(data, tmp_path, monkeypatch):
    monkeypatch.setattr(past, "KEPT", 2)
    monkeypatch.setattr(
        Rebuilt.advance, "__kwdefaults__", {"batch": 100, "most": None, "progress": None}
    )
    live, begun = engine(f"sqlite:///{data / 'ledger.db'}", read_only=True), []
    for sequence in (500, 900, 700, 900):
        told = []
        past_rows(MODEL, live, tmp_path, sequence, progress=lambda *one, to=told: to.append(one))
        begun.append([done for done, _ in told])
    kept = sorted(int(one.name.split("-")[1]) for one in tmp_path.iterdir())
    live.dispose()

    assert begun == [[100, 200, 300, 400, 500], [600, 700, 800, 900], [600, 700], []]
    assert kept == [700, 900]


def test_kept_rows_never_take_the_last_tenth_of_the_disk(tmp_path, capsys, monkeypatch):
    data = make_ledger(tmp_path, recorded()[:400])
    size = (data / "ledger.db").stat().st_size
    assert [bursar("report", "--data", data, "--at", one) for one in (100, 200)] == [0, 0]
    room = [size - 1, size - 1, size]
    free = lambda folder: SimpleNamespace(total=10_000, free=1_000 + room.pop(0))  # noqa: E731
    monkeypatch.setattr(past.shutil, "disk_usage", free)
    assert bursar("report", "--data", data, "--at", 300) == 0
    assert [int(one.name.split("-")[1]) for one in (data / FOLDER).iterdir()] == [300]
    room.extend([size - 1] * 2)
    capsys.readouterr()

    assert bursar("report", "--data", data, "--at", 350) != 0
    assert "make room" in capsys.readouterr()[1]
    assert list((data / FOLDER).iterdir()) == []


def test_a_file_that_is_not_whole_or_of_another_history_is_not_read(
    data, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(past.os, "replace", _dies)
    other = make_ledger(tmp_path, recorded()[1_000:2_000])
    assert bursar("report", "--data", other, "--at", 300) != 0
    monkeypatch.undo()
    (torn,) = [one.name for one in (tmp_path / FOLDER).iterdir()] or ["none"]
    assert bursar("report", "--data", data, "--at", 300) == 0
    for path in (data / FOLDER).iterdir():
        (tmp_path / FOLDER / path.name).write_bytes(path.read_bytes()[:1000])
    capsys.readouterr()
    assert bursar("report", "--data", other, "--at", 300) == 0
    ended = make_ledger(_made(tmp_path / "ended"), recorded()[1_000:1_300])
    found, _ = capsys.readouterr()
    assert bursar("report", "--data", ended) == 0

    assert found == capsys.readouterr()[0]
    assert torn == "none"


def test_an_archive_that_is_not_what_its_chain_says_gives_no_rows(tmp_path, capsys):
    data = make_ledger(tmp_path, recorded()[:400])
    store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
    with store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE events SET key = 'else' WHERE sequence = 200"))
    store.close()

    assert bursar("report", "--data", data, "--at", 300) != 0
    assert "bursar verify" in capsys.readouterr()[1]
    assert list((data / FOLDER).iterdir()) == []
    assert bursar("report", "--data", data, "--at", 199) == 0


def test_a_folder_that_cannot_be_written_is_asked_as_well(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    copied = _made(tmp_path / "copied")
    (copied / "ledger.db").write_bytes((data / "ledger.db").read_bytes())

    assert bursar("report", "--data", copied, "--at", 100) == 0
    assert [one.name for one in copied.iterdir() if one.is_dir()] == []
    assert capsys.readouterr()[0]


def test_what_changed_between_two_moments(data, capsys):
    assert bursar("diff", "--from", 900, "--to", 2_000, "--data", data, "-o", "json") == 0
    rows = json.loads(capsys.readouterr()[0])
    found = {(row["what"], row["name"], row["measure"]): row for row in rows}
    said = Counter(one.type for one in recorded()[900:2_000])
    sums = []
    for sequence in (900, 2_000):
        bursar(
            "report",
            "--by",
            "team",
            "--unit",
            "exact",
            "--at",
            sequence,
            "--data",
            data,
            "-o",
            "json",
        )
        sums.append({one["team"]: one["cpu_milli_s"] for one in json.loads(capsys.readouterr()[0])})

    assert {key[1]: row["change"] for key, row in found.items() if key[0] == "events"} == said
    assert {key[1]: (row["before"], row["after"]) for key, row in found.items() if key[2] == "cpu_milli_s"} == {
        team: (sums[0].get(team, 0), amount) for team, amount in sums[1].items()
    }  # fmt: skip
    assert all(row["change"] for row in rows) and any(key[0] == "quota" for key in found)
    assert bursar("diff", "--from", 900, "--to", 899, "--data", data) == Exit.USAGE
    assert bursar("diff", "--from", 900, "--data", data) == 0
    shown = {tuple(line.split()[:1]) for line in capsys.readouterr().out.splitlines()}
    assert {("usage",), ("events",)} <= shown and ("use",) not in shown


@pytest.mark.postgres
def test_a_ledger_on_postgresql_is_asked_alike(postgres_url, tmp_path, capsys):
    store = ledger(postgres_url)
    fill(store, recorded()[:800], batch=800)
    with store.engine.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM events")).scalar() == 800
    url = postgres_url.replace("postgresql+psycopg:", "postgresql:")
    code = bursar("report", "--by", "team", "--ledger", url, "--data", _made(tmp_path / "d"), "--at", 600)  # fmt: skip
    found, err = capsys.readouterr()
    store.close()
    ended = make_ledger(_made(tmp_path / "ended"), recorded()[:600])
    assert (code, bursar("report", "--by", "team", "--data", ended)) == (0, 0), err

    assert found == capsys.readouterr()[0]


def _dies(*_):
    raise OSError(28, "No space left on device")


def _made(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path

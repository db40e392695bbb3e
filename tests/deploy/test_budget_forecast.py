"""`bursar budget forecast` on small ledgers: what is said, and when nothing is."""

import json

import pytest

from bus.events.quotas import Budget
from deploy.cli.program.exits import Exit
from deploy.cli.rendering import tables
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger

BIZ = "biz.group.resource.quota"
HOUR, DAY = 3_600, 86_400
MILLI_HOUR = 3_600_000


def spending(days, cores=lambda day: 1, *, hard=1_000, period="Total"):
    """A quota that spends so many cores all day long, of a budget of core-hours."""
    budget = Budget(period, exhaustion="Warn")
    yield f.quota_observed("q", 1, 0, cash={"limits.cpu": hard * MILLI_HOUR}, hard={}, budget=budget)  # fmt: skip
    for day in range(days):
        begins, ends = day * DAY, (day + 1) * DAY
        fields = {"labels": {BIZ: "q"}, "cpu": str(cores(day)), "node": "n"}
        yield f.pod_observed(f"p{day}", 1, begins + 1, created=begins, **fields)
        yield f.pod_vanished(f"p{day}", 2, ends + 1, created=begins, deletion=ends, **fields)  # fmt: skip


def made(folder):
    folder.mkdir()
    return folder


def said(capsys, tmp_path, events, *arguments):
    data = make_ledger(tmp_path, list(events))
    assert bursar("budget", "forecast", *arguments, "--data", data, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_budget_that_is_spent_on_evenly_is_used_up_when_that_says(capsys, tmp_path):
    (row,) = said(capsys, tmp_path, spending(10))
    left_hours = row["remaining"] // MILLI_HOUR

    assert 1_000 - 241 <= left_hours <= 1_000 - 239
    assert row["earliest_at"] == row["likely_at"] == row["latest_at"] != None  # noqa: E711
    assert row["chance"] == 1_000


def test_growth_is_in_the_forecast_and_in_how_it_was_off_before(capsys, tmp_path):
    (row,) = said(capsys, tmp_path, spending(30, lambda day: 1 + day, hard=50_000))

    assert row["earliest_at"] < row["likely_at"]
    assert 0 < row["held"] <= row["tried"]
    assert row["off_s"] < row["straight_off_s"]


def test_nothing_is_said_of_less_than_a_week_nor_of_what_is_spent(capsys, tmp_path):
    (young,) = said(capsys, tmp_path, spending(5))
    (spent,) = said(capsys, made(tmp_path / "spent"), spending(10, hard=100))

    assert (young["likely_at"], young["chance"], young["tried"]) == (None, None, 0)
    assert spent["remaining"] < 0 and (spent["likely_at"], spent["chance"]) == (None, None)
    assert bursar("budget", "forecast", "--data", tmp_path / "spent") == 0
    assert "used up" in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_says_when_it_will_not_be_used_up(capsys, tmp_path, monkeypatch, width):
    monkeypatch.setattr(tables, "terminal_width", lambda: width)
    data = make_ledger(tmp_path, list(spending(20, hard=10**7)))
    assert bursar("budget", "forecast", "q", "--data", data) == 0
    out = capsys.readouterr().out

    assert "not in 92 days" in out and "0 %" in out
    assert max(map(len, out.splitlines())) <= width


def test_a_quota_that_is_not_there_is_an_error(capsys, tmp_path):
    data = make_ledger(tmp_path, list(spending(2)))

    assert bursar("budget", "forecast", "tema", "--data", data) != Exit.OK
    assert "tema" in capsys.readouterr().err

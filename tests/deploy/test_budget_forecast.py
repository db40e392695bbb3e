"""`bursar budget forecast` on small ledgers: what is said, and when nothing is."""

import json

import pytest

from bus.clock import parse_stamp
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
    out = capsys.readouterr().out
    assert "used up" in out
    assert "a forecast needs 7 days of spending" in out


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


def test_the_list_of_budgets_says_the_same_day_and_interval(capsys, tmp_path):
    data = make_ledger(tmp_path, list(spending(30, lambda day: 1 + day % 3, hard=3_000)))
    assert bursar("budget", "forecast", "--data", data, "-o", "json") == 0
    (forecast,) = json.loads(capsys.readouterr().out)
    assert bursar("budget", "list", "--data", data, "-o", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)

    names = ("earliest_at", "likely_at", "latest_at", "chance")
    assert [forecast[name] for name in names] == [row[name] for name in names]
    assert bursar("budget", "list", "--data", data) == 0
    days = tuple(row[name][:10] for name in ("likely_at", "earliest_at", "latest_at"))
    assert "{} ({} to {})".format(*days) in capsys.readouterr().out


def growing(days):
    """A quota that may use 40 cores, and every day uses one more."""
    yield f.quota_observed("q", 1, 0, hard={"limits.cpu": 40_000, "limits.memory": 2**40})
    for day in range(days):
        fields = {"labels": {BIZ: "q"}, "cpu": "1", "node": "n"}
        yield f.pod_observed(f"p{day}", 1, day * DAY + 1, created=day * DAY, **fields)
    yield f.pod_observed("last", 1, days * DAY + 1, created=days * DAY, **fields)


def test_a_limit_is_reached_when_growth_says_so(capsys, tmp_path):
    data = make_ledger(tmp_path, list(growing(20)))
    assert bursar("quota", "forecast", "q", "--data", data, "-o", "json") == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}

    assert bursar("quota", "forecast", "q", "--data", data) == 0
    assert "a forecast needs 7 days of use" in capsys.readouterr().out
    cpu = rows["limits.cpu"]
    # The 40th core comes 20 days after the 20th.
    assert cpu["earliest_at"] == cpu["likely_at"] == cpu["latest_at"]
    assert abs(days_after(cpu["likely_at"]) - 40) <= 1
    assert (cpu["chance"], cpu["tried"] > 0, cpu["off_s"] <= DAY) == (1_000, True, True)
    assert rows["limits.memory"]["likely_at"] is None

    assert bursar("quota", "forecast", "--data", data) == 0
    assert cpu["likely_at"][:10] in capsys.readouterr().out
    assert bursar("quota", "forecast", "nobody", "--data", data) != Exit.OK


def days_after(stamp):
    return (parse_stamp(stamp) - f.us(0)) / 1e6 / DAY

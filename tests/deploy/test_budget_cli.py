"""`bursar budget list` and `budget credit`: entries go over a real bus into the ledger, and count."""

import asyncio
import json

import pytest

from bus.envelope import to_line
from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import bursar, process
from tests.deploy.quota_ledger import HOUR, lived, make_quota_ledger


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_quota_ledger(tmp_path_factory.mktemp("budgets"))


def listed(capsys, data, *arguments):
    assert bursar("budget", "list", *arguments, "--data", data, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_what_is_left_is_the_budget_and_its_credits_without_what_is_spent(capsys, data):
    org, team = listed(capsys, data)

    assert (org["quota"], org["end_at"], org["remaining"]) == ("org", None, 100 * HOUR)
    assert {name: team[name] for name in ("hard", "credits", "spent", "remaining")} == {
        "hard": 30 * HOUR, "credits": 0, "spent": 20 * HOUR, "remaining": 10 * HOUR,
    }  # fmt: skip
    assert team["exhausts_at"] == "2026-10-26T23:00:00Z"


def test_the_table_has_hours(capsys, data):
    bursar("budget", "list", "team", "--data", data)
    head, _, row, _ = capsys.readouterr().out.splitlines()

    assert head.split()[-3:] == ["LEFT", "EXHAUSTS-AT", "LIKELY"]
    assert row.split()[3:8] == ["30", "0", "20", "0", "10"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tema", "limits.cpu", "5"), "no quota 'tema' has a budget"),
        (("team", "limits.memory", "5"), "its budgets are limits.cpu"),
        (("team", "limits.cpu", "many"), "'many' are no hours"),
        (("team", "limits.cpu", "0"), "between one unit-second"),
        (("team", "limits.cpu", "5", "--reason", " "), "say why"),
        (("team", "limits.cpu", "5", "--period", "soon"), "'soon' is no time"),
    ],
)
def test_an_entry_that_would_be_lost_is_refused_and_nothing_is_said(capsys, data, arguments, said):
    reason = () if "--reason" in arguments else ("--reason", "r")

    assert bursar("budget", "credit", *arguments, *reason, "--data", data) == Exit.USAGE
    assert said in capsys.readouterr().err
    assert not (data / "bus").exists()


@pytest.mark.nats
async def test_entries_are_kept_and_count_in_their_period(tmp_path):
    """In processes of their own: a command ends its bus."""
    file = tmp_path / "history.ndjson"
    file.write_bytes(b"".join(to_line(event) + b"\n" for event in await lived()))

    def run(*arguments):
        found = process(*arguments, "--data", tmp_path / "d", "-o", "json")
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)

    def story():
        run("import", "events", file, "--all")
        credit = ("budget", "credit", "team", "limits.cpu")
        # The period of the newest observation, which is the one that is shown.
        now = ("--period", "2026-10-26")
        first = run(*credit, "5.5", "--reason", "deadline", "--author", "amy", "--ref", "e1", *now)
        run(*credit, "-1", "--reason", "refund", *now)
        run(*credit, "7", "--reason", "long ago", "--period", "2020-01-05")
        assert run(*credit, "5.5", "--reason", "again", "--ref", "e1", *now) == first
        again = process(*credit, "6", "--reason", "again", "--ref", "e1", "--data", tmp_path / "d")
        assert "this entry says something else" in again.stderr
        return first, run("budget", "list", "team"), run("budget", "list", "team", "--entries")

    first, (team,), entries = await asyncio.to_thread(story)

    assert (first["amount"], first["ref"], first["author"]) == (5 * HOUR + HOUR // 2, "e1", "amy")
    assert [(e["hours"], e["reason"]) for e in entries] == [
        ("5.5", "deadline"),
        ("-1", "refund"),
        ("7", "long ago"),
    ]
    assert team["credits"] == 4 * HOUR + HOUR // 2

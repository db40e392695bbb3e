"""What is open is charged up to the last observation, and the time after it is said to be unknown."""

import json

from bus.events.clock import ClockTicked
from bus.events.policies import PauseChanged
from tests import factories as said
from tests.deploy.ledgers import bursar, make_ledger

HOUR = 3600
EVENTS = [said.pod_observed("p", 1, 0, cpu="2"), *said.pods_listed(["p"], 2, HOUR)]
COMMANDS = [
    said.said(
        PauseChanged(is_paused=True, author="ann"), key="reactors", id="pause/1", at=9 * HOUR
    ),
    said.said(ClockTicked(), key="leader", id="tick/1", at=10 * HOUR),
]


def told(folder, events, capsys, *command):
    folder.mkdir()
    assert bursar(*command, "--data", make_ledger(folder, events)) == 0
    return capsys.readouterr()


def test_a_pause_and_a_tick_charge_nobody(tmp_path, capsys):
    command = ("report", "--by", "team", "--unit", "exact", "-o", "json")
    before = told(tmp_path / "a", EVENTS, capsys, *command).out
    after = told(tmp_path / "b", EVENTS + COMMANDS, capsys, *command).out

    assert json.loads(before) == json.loads(after)
    assert json.loads(after)[0]["cpu_milli_s"] == 2000 * HOUR


def test_report_and_account_say_from_when_on_nothing_is_known(tmp_path, capsys):
    for number, command in enumerate((["report", "--by", "team"], ["acct"])):
        shown = told(tmp_path / str(number), EVENTS + COMMANDS, capsys, *command)

        assert "nothing of cluster c was observed after 2026-10-26T09:00:00Z" in " ".join(
            shown.out.replace("\n", " ").split()
        )


def test_a_later_moment_asked_for_is_unknown_and_not_charged(tmp_path, capsys):
    command = ("report", "--as-of", "2026-10-26T18:00:00Z", "--unit", "exact", "-o", "json")
    (row,) = json.loads(told(tmp_path / "a", EVENTS, capsys, *command).out)

    assert (row["cpu_milli_s"], row["unknown_s"]) == (2000 * HOUR, 9 * HOUR)


def test_status_says_when_each_cluster_was_observed_last_and_what_is_unknown(tmp_path, capsys):
    status = told(tmp_path / "a", EVENTS + COMMANDS, capsys, "status", "-o", "json")
    found = json.loads(status.out)

    assert found["observed"] == "2026-10-26T09:00:00Z"
    assert found["evidence"] == {"c": {"observed": "2026-10-26T09:00:00Z", "unknown_s": 9 * HOUR}}
    assert "unknown" in told(tmp_path / "b", EVENTS + COMMANDS, capsys, "status").out

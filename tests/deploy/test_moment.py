"""What is open is charged up to the last observation, and the time after it is said to be unknown."""

import json

from bus.clock import SECOND_US, SystemClock
from bus.events.clock import ClockTicked
from bus.events.policies import PauseChanged
from deploy.cli.program.commands import COMMANDS as COMMANDS_OF_PROGRAM
from deploy.cli.program.commands import Group
from deploy.cli.program.exits import Exit
from tests import factories as said
from tests.deploy.ledgers import bursar, make_ledger
from tests.deploy.questions import LENGTH, POD, QUESTIONS
from tests.recording import recorded

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


YEAR_S = 365 * 86_400
#: Not asked here: what writes or runs, asks of the history itself, needs an object that the recording lacks, or spans clusters.
OTHERS = {
    "act", "api", "backup", "bench bind", "budget credit", "budget shares", "capsule export", "capsule run", "clusters",
    "config show", "cull undo", "events", "export", "history seal", "history segments", "history trim", "hub",
    "import events", "import openb", "install", "jobs show", "lab evictions", "lab quotas", "lab run", "lab scheduling",
    "lab suggest", "ledger", "manifests", "parked list", "parked redrive", "parked show", "pause", "queue hold",
    "queue move", "queue release", "recover", "replay", "restore", "resume", "schedule scores", "simulate rebalance", "sql",
    "status", "test", "up", "verify", "version", "watch", "webhook",
}  # fmt: skip


def of_program():
    for name, entry in COMMANDS_OF_PROGRAM.items():
        yield from (
            (f"{name} {one}" for one in entry.commands) if isinstance(entry, Group) else (name,)
        )


def test_every_question_is_walked():
    walked = {
        name for name in of_program() for asked in QUESTIONS if " ".join(asked).startswith(name)
    }

    assert walked | OTHERS == set(of_program()) and not walked & OTHERS


def test_no_command_and_no_wall_clock_is_the_now_of_a_question(tmp_path, capsys, monkeypatch):
    """A recording is asked as before a year later, also after a pause and a tick of that day."""
    (tmp_path / "FILE").write_text(POD)
    events = recorded()[:LENGTH]
    late_us = events[-1].time_us + YEAR_S * SECOND_US
    pause = PauseChanged(is_paused=False, author="ann")
    commands = [
        fact.event(
            cluster=events[0].cluster, key=key, id=f"late/{key}", source="test", time_us=late_us
        )
        for fact, key in ((pause, "reactors"), (ClockTicked(), "leader"))
    ]
    answers = []
    for name, history in (("before", events), ("after", [*events, *commands])):
        (tmp_path / name).mkdir()
        data = make_ledger(tmp_path / name, history)
        found = {}
        for question in QUESTIONS:
            words = [str(tmp_path / word) if word == "FILE" else word for word in question]
            code = bursar(*words, "--data", data, "-o", "json")
            found[question] = (code, *capsys.readouterr())
            assert code in (Exit.OK, Exit.NOT_ADMITTED), found[question]
        answers.append({asked: found[asked][1] for asked in found})
        monkeypatch.setattr(SystemClock, "now_us", lambda _: late_us)

    assert answers[0] == answers[1]

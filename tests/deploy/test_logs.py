"""Logs as JSON: every line of every process that runs on is one object, whatever stands in it, and says how far it had read.

Source: docs/operating.md (logs).
"""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bus.clock import parse_stamp
from deploy import logs
from tests.deploy.ledgers import process

JSON = {"BURSAR_LOG__FORMAT": "json"}


def lines(text):
    """Each line of a log as what it holds; a line that is no object fails."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(set(one) >= {"time", "level", "logger", "message"} for one in found)
    return found


def record(message, *arguments, error=None, **more):
    exc_info = error and (type(error), error, error.__traceback__)
    made = logging.LogRecord(
        "bus.sharing", logging.WARNING, __file__, 1, message, arguments, exc_info
    )
    vars(made).update(more)
    return made


def test_a_line_has_time_level_logger_message_and_the_sequence_that_is_known():
    async def written():
        before = logs.JsonLines().format(record("%s waits", "pod"))
        logs.follow(lambda: 4711)
        return [before, logs.JsonLines().format(record("passed over", event=12))]

    before, after = map(json.loads, asyncio.run(written()))

    assert parse_stamp(before.pop("time")) > 0
    assert before == {"level": "warning", "logger": "bus.sharing", "message": "pod waits"}
    assert [after[name] for name in ("sequence", "event")] == [4711, 12]


def test_each_history_of_a_process_has_its_own_sequence():
    async def cluster(sequence):
        logs.follow(lambda: sequence)
        await asyncio.sleep(0)
        return json.loads(await asyncio.create_task(written()))["sequence"]

    async def written():
        return await asyncio.to_thread(logs.JsonLines().format, record("here"))

    async def both():
        return await asyncio.gather(cluster(7), cluster(9))

    assert asyncio.run(both()) == [7, 9]


@pytest.mark.parametrize("text", ["x" * 100_000, "\U0001f600" * 50_000, "\x1b\n" * 50_000])
def test_a_line_is_never_cut_by_a_container_runtime(text):
    try:
        raise ValueError(text)
    except ValueError as error:
        line = logs.JsonLines().format(record("%s failed", text, error=error))

    assert len(line.encode()) < 16_000
    assert json.loads(line)["message"].startswith(text[:100])


def test_a_user_of_the_cluster_begins_no_line_and_hides_none():
    name = 'a\n{"time": "now", "level": "info", "message": "all is well"}\r\u202e\x9b2J'
    line = logs.JsonLines().format(record("pod %s is not asked", name))

    assert line.isascii() and line.isprintable()
    assert name in json.loads(line)["message"]


@pytest.mark.long
@pytest.mark.parametrize("role", ["watch", "ledger", "act", "webhook", "api", "hub"])
def test_every_role_says_in_json_why_it_ends(role, tmp_path):
    ended = process(role, "--data", tmp_path / "data", HOME=str(tmp_path), **JSON)

    assert ended.returncode
    *_, last = lines(ended.stderr)
    assert (last["level"], last["logger"]) == ("error", "bursar")
    assert last["message"].startswith("bursar: ")


@pytest.mark.long
def test_commands_that_end_and_logs_as_text_are_for_people(tmp_path):
    asked = process("status", "--data", tmp_path, HOME=str(tmp_path), **JSON)
    ended = process("ledger", "--data", tmp_path, HOME=str(tmp_path))

    assert asked.stderr.startswith("bursar: no ledger")
    assert ended.stderr.startswith("bursar: ")


@pytest.mark.nats
def test_a_process_that_runs_says_all_in_json_and_up_to_which_event_it_had_read(tmp_path):
    """Also where its tasks wait, which a signal asks for."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    up = subprocess.Popen(
        [Path(sys.executable).with_name("bursar"), "up", "--data", str(tmp_path)],
        env={**clean, **JSON, "HOME": str(tmp_path)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = ""
    try:
        while "status" not in said:
            said += up.stderr.readline()
        up.send_signal(signal.SIGUSR1)
        while "OwnLedgerWriter.run" not in said:
            said += up.stderr.readline()
        up.send_signal(signal.SIGTERM)
        said += up.communicate(timeout=30)[1]
    finally:
        up.kill()
    found = lines(said)

    assert found[-1]["message"].startswith("stopped")
    assert "sequence" not in found[0], "nothing was read yet"
    known = [one["sequence"] for one in found if "sequence" in one]
    assert known == sorted(known)
    last = process("sql", "SELECT max(sequence) AS n FROM events", "--data", tmp_path, "-o", "json")
    assert known[-1] == json.loads(last.stdout)[0]["n"]

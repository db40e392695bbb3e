"""How a process's parts end: together, in order, and never by waiting for ever."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus import waiting
from bus.errors import StalledError
from bus.sources.events import read_lines
from bus.waiting import beside
from deploy.runtime.bootstrap import reach
from deploy.runtime.service import RECORDING
from deploy.runtime.tasks import tasks
from tests.deploy.ledgers import process

(DAY,) = RECORDING.glob("*.ndjson.zst")
IMPORT = ("import", "events", DAY, "--all")
DAY_EVENTS = len(list(read_lines(DAY)))


async def deaf():
    """Work that passes over its first cancellation."""
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        await asyncio.sleep(3600)


@pytest.mark.parametrize("error", [None, ValueError])
async def test_work_beside_a_body_ends_also_where_it_lost_its_cancellation(monkeypatch, error):
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.01)
    async with asyncio.timeout(5):
        try:
            async with beside(deaf()):
                await asyncio.sleep(0)
                if error is not None:
                    raise error
        except* ValueError:
            pass


async def test_a_ledger_that_does_not_move_is_an_error_that_names_its_writer(monkeypatch):
    monkeypatch.setattr(waiting, "STALL_SECONDS", 0.05)

    class Keeper:
        name = "bursar up, process 7"
        sequence = 3

    async with asyncio.timeout(5):
        with pytest.raises(StalledError, match="written by bursar up, process 7' goal=5 at=3"):
            await reach(Keeper(), 5)


async def test_what_each_task_waits_for_is_told_down_to_generators():
    async def numbers():
        await asyncio.sleep(3600)
        yield 1

    async def reads():
        async for _ in numbers():
            pass

    task = asyncio.create_task(reads(), name="reader")
    await asyncio.sleep(0)
    told = tasks()
    await waiting.ended(task)

    block = told.partition("task reader")[2].partition("\ntask")[0]
    assert [name in block for name in ("reads", "numbers", "sleep")] == [True] * 3


async def test_what_each_thread_waits_for_is_told_too():
    begun, goes_on = threading.Event(), threading.Event()

    def stays():
        begun.set()
        goes_on.wait()

    task = asyncio.create_task(asyncio.to_thread(stays))
    while not begun.is_set():
        await asyncio.sleep(0)
    told = tasks()
    goes_on.set()
    await task

    assert "stays (" in told.partition("\nthread ")[2]


def started(*arguments, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    return subprocess.Popen(
        [Path(sys.executable).with_name("bursar"), *map(str, arguments)],
        env={**clean, **environment}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip


@contextmanager
def waiting_up(folder):
    """`bursar up` without a cluster, when it waits for one."""
    up = started("up", "--data", folder, HOME=str(folder))
    try:
        while "waiting" not in up.stderr.readline():
            pass
        yield up
    finally:
        up.kill()


@pytest.mark.nats
def test_sigusr1_shows_where_a_process_waits_and_does_not_end_it(tmp_path):
    with waiting_up(tmp_path) as up:
        up.send_signal(signal.SIGUSR1)
        while "OwnLedgerWriter.run" not in (line := up.stderr.readline()):
            assert line
        up.send_signal(signal.SIGTERM)

        assert "stopped" in up.communicate(timeout=30)[1]


@pytest.mark.nats
def test_a_process_that_crashes_says_where_it_was(tmp_path):
    with waiting_up(tmp_path) as up:
        up.send_signal(signal.SIGSEGV)

        said = up.communicate(timeout=30)[1]
        assert "Segmentation fault" in said and "bootstrap.py" in said


@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.nats
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("first", "again"),
    [(IMPORT, IMPORT), (("up",), ("up", "--once"))],
    ids=["import", "up --once after up"],
)
def test_after_kill_9_the_next_run_ends_in_time_every_time(tmp_path, first, again):
    """Eight times each: killed in mid-run, and run again."""
    rng = random.Random(10)
    for number in range(8):
        data = tmp_path / str(number)
        killed = started(*first, "--data", data, HOME=str(tmp_path))
        stored = data / "bus/store/jetstream/$G/streams/HISTORY/msgs/1.blk"
        while not (stored.exists() and stored.stat().st_size) and killed.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 6))
        killed.kill()
        killed.communicate()

        ended = process(*again, "--data", data, HOME=str(tmp_path))
        assert ended.returncode == 0, ended.stderr
        said = "SELECT count(*) AS n FROM events WHERE type <> 'history.imported'"
        found = json.loads(process("sql", said, "--data", data, "-o", "json").stdout)
        assert found == [{"n": DAY_EVENTS}]

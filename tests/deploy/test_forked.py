"""A child that does a part of the work: what it says arrives, how it ends is known, and it never outlives its parent."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from bus.errors import EnvelopeError
from deploy.errors import ChildEndedError
from deploy.runtime.forked import child


def heard(work):
    """All that a child says."""
    values = []

    async def listen(made):
        async for value in made.results():
            values.append(value)

    with child(work) as made:
        try:
            asyncio.run(listen(made))
        except Exception as error:
            return values, error
    return values, None


def test_what_a_child_says_arrives_whole_and_in_order():
    async def work(tell):
        for number in range(200):
            tell((number, "x" * number * 1000))

    assert heard(work) == ([(n, "x" * n * 1000) for n in range(200)], None)


def test_an_error_of_a_child_is_the_parents():
    async def work(tell):
        tell(1)
        raise EnvelopeError("line 7 is no event", file="f", line=7)

    values, error = heard(work)
    assert (values, type(error), str(error)) == (
        [1],
        EnvelopeError,
        "line 7 is no event: file='f' line=7",
    )
    assert (error.file, error.line) == ("f", 7)


def test_a_child_that_fails_or_is_killed_is_told_of(capfd):
    async def fails(tell):
        raise ZeroDivisionError("of ours")

    async def dies(tell):
        tell(1)
        os.kill(os.getpid(), signal.SIGKILL)

    for work in (fails, dies):
        _, error = heard(work)
        assert isinstance(error, ChildEndedError)
    assert "ZeroDivisionError: of ours" in capfd.readouterr().err


def test_a_child_that_is_never_told_to_begin_does_nothing(tmp_path):
    async def work(tell):
        (tmp_path / "begun").touch()

    with child(work):
        pass
    assert not (tmp_path / "begun").exists()


_PARENT = """
import asyncio, os, signal, sys
from deploy.runtime.forked import child

async def work(tell):
    tell(os.getpid())
    await asyncio.sleep(60)

async def listen(made):
    async for value in made.results():
        print(value, flush=True)

with child(work) as made:
    if sys.argv[1] == "waits":
        print(os.getpid(), flush=True)
        signal.pause()
    asyncio.run(listen(made))
"""


@pytest.mark.long
@pytest.mark.parametrize("when", ["waits", "works"])
def test_a_child_ends_with_its_parent(when):
    started = [sys.executable, "-c", _PARENT, when]
    with subprocess.Popen(started, stdout=subprocess.PIPE, text=True) as process:
        said = int(process.stdout.readline())
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            (made,) = map(int, file.read().split())
        assert said == (made if when == "works" else process.pid)
        process.kill()
    deadline = time.monotonic() + 10
    while is_running(made) and time.monotonic() < deadline:
        time.sleep(0.02)

    assert not is_running(made)


def is_running(process):
    """Whether it is there and no zombie."""
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False

"""Every class that a process loads is built before its threads decode: see :mod:`bus.decoders`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Says which loaded classes nobody has built.
LEFT = """
import asyncio, atexit, sys, msgspec
import bus.decoders as decoders

def left():
    found = [*decoders._loaded(msgspec.Struct)]
    assert len(found) > 300
    return [one.__qualname__ for one in found if one not in decoders._known]
"""
BEGUN = """
import deploy.runtime.service
from deploy.runtime.bootstrap import run

async def work():
    return left()

print(run(work()))
"""
LEDGER = """
from deploy.cli import main

atexit.register(lambda: print(left()))
sys.argv = ["bursar", "up", "--once", "--data", sys.argv[1]]
main()
"""
ACTING = """
from bus.memory import MemoryTransport
from deploy.runtime.reactors import acting

async def work():
    async with acting(MemoryTransport(), None, {}, name="one"):
        return left()

print(asyncio.run(work()))
"""


@pytest.mark.nats
@pytest.mark.parametrize("code", [BEGUN, LEDGER, ACTING], ids=["begun", "ledger", "acting"])
def test_no_class_is_left_that_threads_might_find_half_built(tmp_path, code):
    clean = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LEFT + code, str(tmp_path / "data")]
    done = subprocess.run(command, env=clean, capture_output=True, text=True)

    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr

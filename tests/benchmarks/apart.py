"""A ledger in a process of its own, as `bursar ledger` stands beside `bursar watch`; not for calling by hand.

Reads an order of one line of JSON from standard input, follows the bus it names into the SQLite ledger it names, and
prints (sequence, time in microseconds) of each commit, until its input ends.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import uvloop

from bus.jetstream import JetStream
from bus.streams import history
from projections.catalogue import MODEL
from projections.engine.checkpoint import Checkpoint
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine


class Order(msgspec.Struct):
    """Where the bus is, who asks, and the file of the ledger, whose tables are there."""

    url: str
    credentials: tuple[str, str]
    ledger: str


@asynccontextmanager
async def beside(order: Order, told: Callable[[int, int], None]) -> AsyncIterator[None]:
    """Run such a process until left; ``told`` gets sequence and time of each commit. It is ready when entered."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.apart",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin and process.stdout
    process.stdin.write(msgspec.json.encode(order) + b"\n")
    assert await process.stdout.readline() == b"ready\n", "the ledger's process failed"

    async def listen(lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            sequence, time_us = map(int, line.split())
            told(sequence, time_us)

    listening = asyncio.create_task(listen(process.stdout))
    try:
        yield
    finally:
        process.stdin.close()
        await asyncio.wait_for(process.wait(), 30)
        await listening


async def _follow(order: Order) -> None:
    door = await JetStream.connect(order.url, history(), credentials=order.credentials)
    store = Store(engine(f"sqlite:///{Path(order.ledger)}"), archive=True)

    def told(checkpoint: Checkpoint) -> None:
        print(checkpoint.sequence, time.time_ns() // 1000, flush=True)

    running = asyncio.create_task(Runner(store, Folder(MODEL, store), door, committed=told).run())
    print("ready", flush=True)
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await door.close()
    store.close()
    spent = os.times()
    print(f"ledger: {spent.user + spent.system:.1f} s of CPU", file=sys.stderr)


if __name__ == "__main__":
    uvloop.run(_follow(msgspec.json.decode(sys.stdin.readline(), type=Order)))

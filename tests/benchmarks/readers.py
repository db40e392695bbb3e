"""What it costs a process that does all of `bursar up` to follow the history: ledger, journals and reactors, nothing to decide.

    python -m tests.benchmarks.readers [--rounds 5] [--events 10000] [--rate 1000] [-o json]

A process of its own publishes lives of pods at a steady rate; here they are written to the ledger with their archive, and taken
in by admission's journals and by the reactors, as :mod:`deploy.runtime.service` puts them together; there is no
cluster, so sources and
effects do not count. CPU is this process's, from the first event until the last was taken in by all three.

- *shared*: one read of the bus for all (:mod:`bus.sharing`).
- *own*: each reads by itself.

Source: docs/architecture.md: one history reader in a process.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from bus.clock import SystemClock
from bus.embedded import EmbeddedServer
from bus.jetstream import JetStream
from bus.sharing import SharedReading
from bus.streams import history
from bus.transport import Transport
from bus.waiting import beside
from deploy.runtime.reactors import acting
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from reactors.admitting import following
from reactors.catalogue import REACTORS
from reactors.engine.settings import ReactorPolicy
from tests.benchmarks import ledgers, measure, synthetic
from tests.benchmarks.measure import Cost, Goal, Report, Stopwatch

#: Events in one call of the publisher.
TOGETHER = 20

GOALS = (Goal("CPU, one read for all / a read for each", "cpu", "shared", "own", "<=", 0.67),)


async def publish(url: str, credentials: list[str], count: int, rate: int) -> None:
    """Say ``count`` events at a rate: the other process."""
    events = [msgspec.structs.replace(e, sequence=0) for e in synthetic.events(count)]
    door = await JetStream.connect(url, history(), credentials=(credentials[0], credentials[1]))
    began = time.monotonic()
    for number, part in enumerate(ledgers.parts(events, TOGETHER)):
        await asyncio.sleep(max(0.0, began + number * TOGETHER / rate - time.monotonic()))
        await door.publish(part)
    await door.close()


async def followed(
    folder: Path, share: Callable[[Transport], Transport], count: int, rate: int
) -> Cost:
    """The cost of one event to all who follow."""
    clock, name = SystemClock(), synthetic.CLUSTER
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer(folder))
        door = await JetStream.connect(server.url, history(), credentials=server.credentials)
        stack.push_async_callback(door.close)
        transport, store = share(door), ledgers.fresh(folder / "ledger.db", archive=True)
        stack.callback(store.close)
        ledger = Runner(store, Folder(MODEL, store), transport)
        await stack.enter_async_context(beside(_run(ledger)))
        admission = await stack.enter_async_context(
            following(transport, clock, cluster=name, source="keeper/bench", keeps=True)
        )
        wanted = {one.name: ("shadow", one.policy()) for one in REACTORS if one.policy is not None}
        reactors: dict[str, tuple[str, ReactorPolicy]] = wanted
        runner = await stack.enter_async_context(acting(transport, None, reactors, name=name))
        first = (await door.head()).last_sequence
        with Stopwatch() as watch:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.benchmarks.readers", "--publish",
                server.url, *server.credentials, str(count), str(rate),
            )  # fmt: skip
            goal = first + count

            def last() -> int:
                return min(
                    ledger.checkpoint.sequence, admission.journals.sequence, runner.replica.sequence
                )

            while last() < goal or process.returncode is None:
                await asyncio.sleep(0.1)
        assert process.returncode == 0, "the publisher failed"
    return watch.cost(count)


async def _run(ledger: Runner) -> None:
    await ledger.run()


def run(args: argparse.Namespace) -> Report:
    """All rounds, each on a bus and a ledger of its own."""

    def variant(share: Callable[[Transport], Transport]) -> measure.Variant:
        def play(_: int) -> Cost:
            with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder:
                return asyncio.run(followed(Path(folder), share, args.events, args.rate))

        return play

    variants = {"shared": variant(SharedReading), "own": variant(lambda door: door)}
    results = measure.interleaved(variants, args.rounds)
    return measure.judged(results, GOALS, [f"{args.events} events, {args.rate} a second"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--publish"]:
        url, user, password, count, rate = sys.argv[2:]
        asyncio.run(publish(url, [user, password], int(count), int(rate)))
    else:
        title = "What following the history costs a process that does all of it."
        raise SystemExit(measure.main(run, title, events=10_000, rate=1_000))

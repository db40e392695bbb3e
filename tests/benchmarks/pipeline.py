"""The whole pipeline, bus → decode → fold → SQLite with checkpoint, against two controls.

    python -m tests.benchmarks.pipeline [--events 20000] [--rounds 5] [-o json]

*ours*: the product's reader, runner, books and store on an embedded JetStream; *ours_archive* also keeps every event's
bytes with the hash chain. *naive* is :mod:`tests.benchmarks.naive`: what one would write first; it shows what the
plumbing saves. *plain* is a loop over a file with the same folds and statements and no plumbing at all; it shows what
the plumbing costs. Every variant starts with empty tables in a file of its own, and their rows are proven equal, content
included, in every round.

CPU is this process (the bus server is another one for ours and naive alike), wall until the last commit.
Source: tests/benchmarks/README.md (goals 7 and 8).
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bus.embedded import EmbeddedServer
from bus.envelope import to_line
from bus.jetstream import JetStream
from bus.streams import history
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store
from tests.benchmarks import ledgers, measure, naive, synthetic
from tests.benchmarks.measure import Cost, Goal, Report, Stopwatch

GOALS = (
    Goal("CPU: ours / naive, no archive in both", "cpu", "ours", "naive", "<=", 0.35),
    Goal("speed: ours / plain file loop, no archive in both", "wall", "plain", "ours", ">=", 0.4),
    Goal("speed: ours with archive / plain file loop without", "wall", "plain", "ours_archive", ">=", 0.3),
)  # fmt: skip


class Bench:
    """One stream and one file with the same events, and the variants over them."""

    def __init__(self, folder: Path, count: int, loop: asyncio.Runner) -> None:
        self._folder = folder
        self._count = count
        self._loop = loop
        self._server = EmbeddedServer(folder / "bus", sync_always=False)
        self._lines = folder / "events.ndjson"
        self._made = 0
        self.rows: dict[str, Any] = {}

    def fill(self) -> None:
        """The same events into the stream and into a file."""
        events = list(synthetic.events(self._count))
        self._lines.write_bytes(b"".join(to_line(event) + b"\n" for event in events))

        async def publish() -> None:
            await self._server.start()
            door = await self._door()
            await door.publish(events)
            await door.close()

        self._loop.run(publish())

    def stop(self) -> None:
        """End the server."""
        self._loop.run(self._server.stop())

    async def _door(self) -> JetStream:
        return await JetStream.connect(
            self._server.url, history(), credentials=self._server.credentials
        )

    def _measured(self, work: Callable[[Store], int], *, archive: bool = False) -> Cost:
        self._made += 1
        store = ledgers.fresh(self._folder / f"ledger-{self._made}.db", archive=archive)
        with Stopwatch() as clock:
            done = work(store)
        assert done == self._count, f"{done} of {self._count} events"
        rows = ledgers.rows_of(store)
        self.rows = self.rows or rows
        assert rows == self.rows, f"other rows: {rows} instead of {self.rows}"
        store.close()
        return clock.cost(self._count)

    def ours(self, _: int, *, archive: bool = False) -> Cost:
        """The product, as ``bursar up`` puts it together."""

        async def play(store: Store) -> int:
            door = await self._door()
            checkpoint = await Runner(store, Folder(MODEL, store), door).run(live=False)
            await door.close()
            return checkpoint.sequence

        return self._measured(lambda store: self._loop.run(play(store)), archive=archive)

    def ours_archive(self, number: int) -> Cost:
        """The same with every event kept."""
        return self.ours(number, archive=True)

    def naive(self, _: int) -> Cost:
        """Fetch, acknowledge each, pydantic, Core row by row."""

        def work(store: Store) -> int:
            return self._loop.run(
                naive.play(
                    self._server.url, self._server.credentials, "HISTORY", self._count, store
                )
            )

        return self._measured(work)

    def plain(self, _: int) -> Cost:
        """The loop without plumbing."""
        return self._measured(lambda store: ledgers.plain_loop(self._lines, store))


def run(args: argparse.Namespace) -> Report:
    """All rounds."""
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder, asyncio.Runner() as loop:
        bench = Bench(Path(folder), args.events, loop)
        try:
            bench.fill()
            variants = {
                name: getattr(bench, name) for name in ("ours", "naive", "plain", "ours_archive")
            }
            results = measure.interleaved(variants, args.rounds)
        finally:
            bench.stop()
    notes = [f"{args.events} events; rows equal in all variants and rounds: {bench.rows}"]
    return measure.judged(results, GOALS, notes)


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "The whole pipeline against two controls.", events=20_000))

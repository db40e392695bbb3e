"""Bytes that an event takes on disk before it is sealed: in the bus, and in the ledger by its parts.

    python -m tests.benchmarks.history_size [--events 1000000] [--live 3000] [-o json]

Made-up events are published to an embedded bus, and folded and stored as the runner does. Nothing is sealed or trimmed. Sizes are
those of files and, within the ledger, of tables and indexes. Goal: bus and ledger together at most 600 bytes an event.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
from pathlib import Path

from bus.embedded import EmbeddedServer
from bus.jetstream import JetStream
from bus.streams import history
from projections.catalogue import MODEL
from projections.engine.collecting import seldom_collecting
from projections.engine.folder import Folder
from tests.benchmarks import ledgers, measure, synthetic
from tests.benchmarks.measure import Report
from tests.benchmarks.segments import size

MOST_BYTES = 600.0
PART = 5_000


async def build(folder: Path, count: int, live: int) -> None:
    """Publish, fold and store."""
    store = ledgers.fresh(folder / "ledger.db", archive=True)
    folds = Folder(MODEL, store)
    folds.open()
    checkpoint = store.checkpoint(MODEL.version)
    async with EmbeddedServer(folder) as server:
        bus = await JetStream.connect(server.url, history(), credentials=server.credentials)
        with seldom_collecting():
            for part in ledgers.parts(synthetic.events(count, live=live), PART):
                await bus.publish(part)
                checkpoint = store.commit(part, folds.fold(part), checkpoint)
                folds.settle()
        await bus.close()
    store.close()


def parts(ledger: Path) -> dict[str, int]:
    """Bytes of tables and indexes, the largest first."""
    query = "SELECT name, sum(pgsize) AS size FROM dbstat GROUP BY name ORDER BY size DESC"
    with sqlite3.connect(ledger) as connection:
        return dict(connection.execute(query))


def run(args: argparse.Namespace) -> Report:
    """One length."""
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
        folder = Path(name)
        asyncio.run(build(folder, args.events, args.live))
        on_bus = size(folder, "bus/store/**/*.*") / args.events
        in_ledger = size(folder, "ledger.db*") / args.events
        largest = [
            (part, found / args.events) for part, found in parts(folder / "ledger.db").items()
        ]
    notes = [f"bus {on_bus:.0f}, ledger {in_ledger:.0f} bytes an event"]
    notes += [f"ledger, {part}: {found:.0f} bytes an event" for part, found in largest[:8]]
    goals = [
        measure.verdict("bytes an event, bus and ledger", [on_bus + in_ledger], "<=", MOST_BYTES)
    ]
    return {"rounds": 1, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(
        measure.main(run, "What an event takes on disk.", events=1_000_000, live=3_000)
    )

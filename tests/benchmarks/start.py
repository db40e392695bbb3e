"""What a start costs with a long history behind it: CPU of a process up to the first decision and the first answer.

    python -m tests.benchmarks.start [--events 1000000] [--live 3000] [--rounds 5] [-o json]

An archive of made-up events with a fixed number of live pods is written for each length: all events, a tenth and a hundredth.
A process of its own reads all of it and leaves the snapshots that a running one would have left, 5,000 events before the end.
Then each round starts
a process that restores both snapshots, reads the archive after them, asks every reactor to decide on a tick, and says what it
used, imports included. Goal: 3 s, however long the history is. Beside it stands what the first process used, which had no
snapshot, and what a snapshot costs the one that writes it: milliseconds in which nothing is decided, and bytes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from bus.clock import SystemClock
from bus.envelope import Event
from bus.events.clock import LEADER, ClockTicked
from bus.memory import MemoryTransport
from projections.engine.segments.reading import with_links
from projections.engine.snapshots import write
from projections.engine.store import Store, engine
from reactors.catalogue import REACTORS
from reactors.engine.snapshots import EVERY, at, last_archived, reader_of, restored
from reactors.readers import Readers
from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.benchmarks.replay import archive
from tests.benchmarks.synthetic import CLUSTER

GOAL_SECONDS = 3.0
#: Events after the newest snapshot, on the average of all moments to be killed at.
AFTER = EVERY // 2


def tick(store: Store) -> Event:
    """A tick at the end of the archive."""
    (last, _), *_ = with_links(store.select, last_archived(store.select), 1)
    return ClockTicked().event(
        cluster=CLUSTER, key=LEADER, id="tick", source="clock", time_us=last.time_us
    )


def begin(path: Path, *, leaves: bool) -> dict[str, Any]:
    """Start as ``bursar up`` does; run in a process of its own. ``leaves``: write the snapshots of a process before it."""
    store = Store(engine(f"sqlite:///{path}"))
    last = last_archived(store.select)
    until = last - min(AFTER, last // 2) if leaves else last
    replica = at(store.select, REACTORS, CLUSTER, until)
    readers = restored(
        store.select,
        lambda: Readers(MemoryTransport(), SystemClock(), cluster=CLUSTER, source="benchmark"),
        until,
    )
    readers.read(store.select, until)
    replica.decide(tick(store))
    told = {"cpu": time.process_time(), "ms": 0.0, "bytes": 0}
    for knows in (replica, readers) if leaves else ():
        began = time.perf_counter()
        state = msgspec.msgpack.encode(knows.saved())
        told["ms"] = max(told["ms"], (time.perf_counter() - began) * 1_000)
        told["bytes"] += len(state)
        assert write(store, reader_of(knows), until, state)
    store.close()
    return told


def started(path: Path, *, leaves: bool = False) -> dict[str, Any]:
    """What a process of its own tells."""
    child = [sys.executable, "-m", "tests.benchmarks.start", "--begin", str(path), str(int(leaves))]
    found: dict[str, Any] = json.loads(subprocess.run(child, stdout=-1, check=True).stdout)
    return found


def run(args: argparse.Namespace) -> Report:
    """All lengths, all rounds."""
    verdicts, notes = [], []
    for count in (args.events // 100, args.events // 10, args.events):
        with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder:
            path = Path(folder) / "ledger.db"
            archive(path, count, args.live)
            first = started(path, leaves=True)
            found = [started(path)["cpu"] for _ in range(args.rounds + 1)][1:]
        title = f"CPU of a start, s, {count:,} events behind, {args.live:,} pods alive"
        verdicts.append(measure.verdict(title, found, "<=", GOAL_SECONDS))
        notes.append(
            f"{count:,} events: {statistics.median(found):.2f} s with a snapshot, {first['cpu']:.1f} s without; "
            f"{first['ms']:.0f} ms to encode the larger one, {first['bytes'] / 2**20:.1f} MiB both"
        )
    return {"rounds": args.rounds, "per_event": {}, "goals": verdicts, "notes": notes}


def main() -> int:
    """The benchmark, or with ``--begin`` one start."""
    if sys.argv[1:2] == ["--begin"]:
        print(json.dumps(begin(Path(sys.argv[2]), leaves=sys.argv[3] == "1")))
        return 0
    return measure.main(run, "What a start costs.", events=1_000_000, live=3_000)


if __name__ == "__main__":
    raise SystemExit(main())

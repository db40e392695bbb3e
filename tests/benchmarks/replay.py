"""Replaying a long history from the SQL archive into empty tables: how long, and how much memory.

    python -m tests.benchmarks.replay [--events 1000000] [--rounds 5] [-o json]

A million synthetic events (3,000 pods alive at a time, 140,000 in all) are archived once, with their chain. Each round then
replays them by :func:`projections.engine.replay.rebuild` in a process of its own: read the archive, fold, write the rows
beside. Its resident memory is read after a quarter, a half and all of the history, and must follow what is alive, not what
has been: between a quarter and the whole it may grow by a quarter. A second history with a third of the pods alive shows
what it does follow.

Goal: under 90 s. Seconds depend on the machine and its other work, so the CPU seconds stand beside.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from projections.catalogue import MODEL
from projections.engine.changes import Changes
from projections.engine.checkpoint import Checkpoint
from projections.engine.replay import rebuild
from projections.engine.store import Store, engine
from tests.benchmarks import ledgers, measure, synthetic
from tests.benchmarks.measure import Report, Stopwatch

GOAL_SECONDS = 90
#: The caches of ended pods and of rows (20,000 each) are not full after a quarter; a history kept would give 4.
MOST_GROWTH = 1.25


def archive(path: Path, count: int, live: int) -> None:
    """An archive of ``count`` events with its checkpoint, as the runner leaves one; no rows."""
    store = ledgers.fresh(path, archive=True)
    checkpoint = Checkpoint(MODEL.version)
    for part in ledgers.parts(synthetic.events(count, live=live), 5_000):
        checkpoint = store.commit(part, Changes(), checkpoint)
    store.close()


def replay(source: Path, count: int) -> dict[str, Any]:
    """Replays an archive; run in a process of its own, since it reads that process's memory."""
    marks = {count // 4, count // 2, count}
    rss: dict[int, float] = {}

    def progress(sequence: int, _: int) -> None:
        if sequence in marks:
            rss[sequence] = _status("VmRSS")

    live = Store(engine(f"sqlite:///{source}"))
    with Stopwatch() as clock:
        rebuilt = rebuild(MODEL, live, progress=progress)
    assert rebuilt.checkpoint.sequence == count, rebuilt.checkpoint
    told = {
        "seconds": clock.wall_seconds,
        "cpu_seconds": clock.cpu_seconds,
        "rss_mib": rss,
        "peak_mib": _status("VmHWM"),
        "rows": ledgers.rows_of(rebuilt.store),
    }
    rebuilt.close()
    live.close()
    return told


def _status(name: str) -> float:
    """A figure of /proc/self/status in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return round(int(line.split()[1]) / 1024, 1)
    raise LookupError(name)


def _in_a_process(source: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.replay", "--replay", str(source), str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(args: argparse.Namespace) -> Report:
    """All rounds over the long history, one over the one with fewer pods alive."""
    few = synthetic.LIVE_PODS // 3
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
        folder = Path(name)
        archive(folder / "archive.db", args.events, synthetic.LIVE_PODS)
        told = [_in_a_process(folder / "archive.db", args.events) for _ in range(args.rounds)]
        archive(folder / "few.db", args.events // 4, few)
        fewer = _in_a_process(folder / "few.db", args.events // 4)
    assert all(one["rows"] == told[0]["rows"] for one in told), "replays differ"
    goals = [
        measure.verdict(
            f"seconds for {args.events} events", [t["seconds"] for t in told], "<=", GOAL_SECONDS
        ),
        measure.verdict(
            "memory after all / after a quarter of the history",
            [t["rss_mib"][str(args.events)] / t["rss_mib"][str(args.events // 4)] for t in told],
            "<=",
            MOST_GROWTH,
        ),
    ]
    notes = [
        f"CPU seconds {statistics.median(t['cpu_seconds'] for t in told):.1f}",
        f"RSS in MiB by events: {told[0]['rss_mib']}, peak {told[0]['peak_mib']}",
        f"with {few} pods alive: {fewer['rss_mib']}, peak {fewer['peak_mib']}",
        f"rows, equal in all rounds: {told[0]['rows']}",
    ]
    per_event = {
        "replay": {
            "cpu_us": round(
                statistics.median(t["cpu_seconds"] for t in told) / args.events * 1e6, 2
            ),
            "wall_us": round(statistics.median(t["seconds"] for t in told) / args.events * 1e6, 2),
        }
    }
    return {"rounds": args.rounds, "per_event": per_event, "goals": goals, "notes": notes}


def main() -> int:
    """The benchmark, or with ``--replay`` its worker."""
    if sys.argv[1:2] == ["--replay"]:
        print(json.dumps(replay(Path(sys.argv[2]), int(sys.argv[3]))))
        return 0
    return measure.main(run, "Replay of a long history.", events=1_000_000)


if __name__ == "__main__":
    raise SystemExit(main())

"""Questions as of an earlier event: CPU seconds of whole processes of `bursar quota tree --at EVENT`.

    python -m tests.benchmarks.past [--events 1000000] [--rounds 3] [-o json]

Synthetic events (3,000 pods alive at a time) are archived once, with their chain. Then, in each round with nothing kept: *first*
asks as of the middle, so that half of the history is folded; *again* asks the same; *later* asks as of one hundredth of the
history later, which goes on from what is kept; *time* asks the same by its time, which is looked up in the archive. *report* is
`bursar report --by team` with rows kept, which adds up all pods that there were. *verify* is `bursar verify`, the whole chain.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from bus.envelope import Event
from deploy.cli.past import FOLDER
from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine.changes import Changes
from projections.engine.checkpoint import Checkpoint
from projections.engine.store import Store, engine
from tests.benchmarks import ledgers, measure, synthetic
from tests.benchmarks.measure import Report

#: Of a question whose rows are kept.
GOAL_SECONDS = 1.0
#: Of a million events.
GOAL_VERIFY = 10.0


def archive(
    path: Path, count: int, history: Callable[[int], Iterable[Event]] = synthetic.events
) -> None:
    """A ledger with the archive of ``count`` events and no rows."""
    store = Store(engine(f"sqlite:///{path}"))
    upgrade(store.engine)
    checkpoint = Checkpoint(MODEL.version)
    for part in ledgers.parts(history(count), 5_000):
        checkpoint = store.commit(part, Changes(), checkpoint)
    store.close()


def asked(data: Path, at: str, *question: str) -> tuple[float, str]:
    """CPU seconds of one question, and what it says on stderr."""
    asks = (*(question or ("quota", "tree")), *(("--at", at) if at else ()))
    used, done = answered(data, *asks)
    return used, done.stderr


def answered(data: Path, *question: str | Path) -> tuple[float, subprocess.CompletedProcess[str]]:
    """CPU seconds of one command on a ledger, and what it says."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [Path(sys.executable).with_name("bursar"), *question, "--data", data],
        env=clean, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, done


def run(args: argparse.Namespace) -> Report:
    """All rounds over one history."""
    middle, later = args.events // 2, args.events // 2 + args.events // 100
    found: dict[str, list[float]] = {
        "first": [],
        "again": [],
        "later": [],
        "time": [],
        "report": [],
        "verify": [],
    }
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
        data = Path(name)
        archive(data / "ledger.db", args.events)
        for _ in range(args.rounds):
            shutil.rmtree(data / FOLDER, ignore_errors=True)
            for what, at in (("first", middle), ("again", middle), ("later", later)):
                seconds, said = asked(data, str(at))
                found[what].append(seconds)
            found["time"].append(asked(data, said.split()[-1])[0])
            found["verify"].append(asked(data, "", "verify")[0])
            found["report"].append(asked(data, str(later), "report", "--by", "team")[0])
        kept = max(one.stat().st_size for one in (data / FOLDER).iterdir())
        size = (data / "ledger.db").stat().st_size
    median = {what: statistics.median(seconds) for what, seconds in found.items()}
    goals = [
        measure.verdict("CPU seconds, rows kept", found["again"], "<=", GOAL_SECONDS),
        measure.verdict("CPU seconds of verify", found["verify"], "<=", GOAL_VERIFY),
    ]
    notes = [
        f"first {median['first']:.1f} s, {median['first'] / middle * 1e6:.0f} us an event before it; one hundredth "
        f"later {median['later']:.2f} s; by time {median['time']:.2f} s; report {median['report']:.2f} s",
        f"kept rows {kept / 2**20:.0f} MiB beside an archive of {size / 2**20:.0f} MiB",
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "Questions as of an earlier event.", events=1_000_000))

"""What an event costs to fold and to store, without a bus: CPU of the folder and of the SQLite ledger, without the archive.

    python -m tests.benchmarks.folding [--events 40000] [--rounds 5] [-o json]

Batches of 1,000 made-up events, of 3,000 pods alive at a time; the first round is not counted. There is no control: what a change
costs is seen by turns with another checkout.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bus.envelope import Event
from projections.catalogue import MODEL
from projections.engine.collecting import seldom_collecting
from projections.engine.folder import Folder
from tests.benchmarks import ledgers, measure, synthetic
from tests.benchmarks.measure import Report

BATCH, LIVE = 1_000, 3_000
MOST_US = 120.0


def folded(events: list[Event], folder: Path) -> tuple[float, float]:
    """(CPU of folding, CPU of storing), microseconds an event."""
    store = ledgers.fresh(folder / "ledger.db", archive=False)
    folds = Folder(MODEL, store)
    folds.open()
    checkpoint, folding, storing = store.checkpoint(MODEL.version), 0.0, 0.0
    with seldom_collecting():
        for part in ledgers.parts(iter(events), BATCH):
            began = time.process_time()
            changes = folds.fold(part)
            between = time.process_time()
            checkpoint = store.commit(part, changes, checkpoint)
            folds.settle()
            folding += between - began
            storing += time.process_time() - between
    store.close()
    return folding / len(events) * 1e6, storing / len(events) * 1e6


def run(args: argparse.Namespace) -> Report:
    """All rounds over the same events."""
    events = list(synthetic.events(args.events, live=LIVE))
    rounds = []
    for _ in range(args.rounds + 1):
        with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
            rounds.append(folded(events, Path(name)))
    sums = [sum(one) for one in rounds[1:]]
    goals = [measure.verdict("CPU us an event, folded and stored", sums, "<=", MOST_US)]
    notes = [
        f"least of the rounds: {min(one[0] for one in rounds):.1f} us folded, {min(one[1] for one in rounds):.1f} us stored"
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "Events folded and stored.", events=40_000))

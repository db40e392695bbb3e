"""What a long history takes: bytes of ledger and segments, CPU to seal and trim, and CPU of a start, for three lengths.

    python -m tests.benchmarks.segments [--events 10000000] [--live 3000] [--rounds 5] [-o json]

Made-up events are folded and stored as the runner does, all their rows too, and sealed and trimmed behind it, so that the table
keeps the last 200,000. Lengths are a tenth, three tenths and all of the events. A start is that of ``tests.benchmarks.start``: a
process of its own that restores snapshots, reads the history after them and decides. Goals of 10,000,000 events: 2.5 GB together,
150 bytes an event in segments, a start of 3 s.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from projections.catalogue import MODEL
from projections.engine.collecting import seldom_collecting
from projections.engine.folder import Folder
from projections.engine.heads import Signer
from projections.engine.segments.reading import trimmed_until
from projections.engine.segments.sealing import Sealer
from tests.benchmarks import ledgers, measure, synthetic
from tests.benchmarks.measure import Report
from tests.benchmarks.start import started

EVERY = 20_000
#: Events that the table keeps.
KEPT = 200_000
MOST_BYTES = 2.5e9
MOST_EACH = 150.0
MOST_START = 3.0


def build(folder: Path, count: int, live: int) -> tuple[float, float]:
    """(CPU of folding and storing, CPU of sealing and trimming), seconds."""
    store = ledgers.fresh(folder / "ledger.db", archive=True)
    sealer = Sealer(store, Signer(folder / "key"), folder / "segments", EVERY)
    folds = Folder(MODEL, store)
    folds.open()
    checkpoint = store.checkpoint(MODEL.version)
    folding = sealing = 0.0
    with seldom_collecting():
        for part in ledgers.parts(synthetic.events(count, live=live), 5_000):
            began = time.process_time()
            checkpoint = store.commit(part, folds.fold(part), checkpoint)
            folds.settle()
            folded = time.process_time()
            while sealer.seal() is not None:
                pass
            if checkpoint.sequence - trimmed_until(store.select) >= KEPT + EVERY:
                assert sealer.trim(0) is not None
            folding, sealing = folding + folded - began, sealing + time.process_time() - folded
    store.close()
    return folding, sealing


def size(folder: Path, pattern: str) -> int:
    """The bytes of files."""
    return sum(one.stat().st_size for one in folder.glob(pattern))


def run(args: argparse.Namespace) -> Report:
    """All lengths."""
    verdicts, notes = [], []
    for count in (args.events // 10, args.events * 3 // 10, args.events):
        with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
            folder = Path(name)
            folding, sealing = build(folder, count, args.live)
            ledger, segments = size(folder, "ledger.db*"), size(folder, "segments/*")
            started(folder / "ledger.db", leaves=True)
            cpu = [started(folder / "ledger.db")["cpu"] for _ in range(args.rounds + 1)][1:]
        of = f"{count:,} events"
        each = segments / (count // EVERY * EVERY)
        verdicts += [
            measure.verdict(f"ledger and segments, bytes, {of}", [ledger + segments], "<=", MOST_BYTES),
            measure.verdict(f"bytes an event in segments, {of}", [each], "<=", MOST_EACH),
            measure.verdict(f"CPU of a start, s, {of}", cpu, "<=", MOST_START),
        ]  # fmt: skip
        notes.append(
            f"{of}: ledger {ledger / 1e6:.0f} MB, segments {segments / 1e6:.1f} MB; {folding / count * 1e6:.0f} us an event to "
            f"fold and store, {sealing / count * 1e6:.1f} us to seal and trim"
        )
    return {"rounds": args.rounds, "per_event": {}, "goals": verdicts, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "What a long history takes.", events=10_000_000, live=3_000))

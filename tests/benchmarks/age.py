"""What the age of a history costs: reports over 1,000,000 events, and late records behind 50,000 complete lists.

    python -m tests.benchmarks.age [--events 1000000] [--lists 50000] [--records 200] [--postgres 1] [--rounds 3] [-o json]

*Reports* are whole processes of the command line over made-up events of 16 hours (3,000 pods alive at a time, 140,000 in all), as
of the newest event. *Late records* are first observations of pods that are older than every list and that no later list has: one
half was never listed, the other left the lists within the first tenth. Each list has 1,000 pods, of which the next one replaces
ten. Counted is the CPU of folding and storing a record, that of PostgreSQL included, less the same for pods of which the delete is
known, about which no list is asked. ``--events 0`` or ``--lists 0`` leaves out a part.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bus.envelope import Event
from projections.catalogue import MODEL
from projections.engine.checkpoint import Checkpoint
from projections.engine.folder import Folder
from projections.engine.store import Store
from tests import factories as said
from tests.benchmarks import ledgers, measure, past, reports, synthetic
from tests.benchmarks.measure import Report

#: CPU seconds of the default report, and milliseconds of a late record.
MOST_SECONDS, MOST_MS = 1.0, 1.0
LISTED, REPLACED, EVERY_S = 1_000, 10, 600
QUESTIONS = (
    ("report",), ("report", "--by", "team"), ("report", "--by", "team", "--from", "6h"), ("report", "--by", "team", "--from", "7d"),
    ("report", "--by", "team", "--from", "year"), ("report", "--by", "team", "--amounts"),
)  # fmt: skip


class Ledger:
    """A ledger that takes events. ``pids``: of the processes whose CPU is that of its database."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._folder = Folder(MODEL, store)
        self._folder.open()
        self._checkpoint: Checkpoint = store.checkpoint(MODEL.version)
        self.pids: list[int] = []

    def take(self, events: list[Event]) -> None:
        """Fold and store the next events."""
        events = said.numbered(events, self._checkpoint.sequence + 1)
        self._checkpoint = self.store.commit(events, self._folder.fold(events), self._checkpoint)
        self._folder.settle()


def uid(number: int) -> str:
    """As long as those of Kubernetes."""
    return f"{number:08x}-0000-4000-8000-{number * 2_654_435_761 % 2**48:012x}"


def lists(count: int) -> Iterator[Event]:
    """Complete lists, one after the other."""
    for number in range(count):
        there = [uid(number * REPLACED + one) for one in range(LISTED)]
        yield from said.pods_listed(there, 1_000 + number, (number + 1) * EVERY_S)


def late(number: int, count: int, *, is_gone: bool) -> Event:
    """The first observation of a pod that is older than every list."""
    name = uid(number // 2 % (count // 10 * REPLACED)) if number % 2 else uid(2**31 + number)
    if is_gone:
        return said.pod_vanished(f"{name}-gone", 1, number % EVERY_S, deletion=number % EVERY_S)
    return said.pod_observed(name, 1, number % EVERY_S)


def recorded(ledger: Ledger, args: argparse.Namespace, number: int) -> float:
    """Milliseconds of CPU of a late record."""
    costs = {}
    for is_gone in (True, False):
        some = [
            late(number * args.records + one, args.lists, is_gone=is_gone)
            for one in range(args.records)
        ]
        with measure.Stopwatch(ledger.pids) as clock:
            for part in ledgers.parts(some, 100):
                ledger.take(part)
        costs[is_gone] = clock.cost(args.records).cpu / 1_000
    return costs[False] - costs[True]


def reported(args: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """CPU seconds of each question."""
    ledger = Ledger(reports.opened(folder, False))
    for part in ledgers.parts(synthetic.events(args.events)):
        ledger.take(part)
    ledger.store.close()
    found: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for words in QUESTIONS:
            found.setdefault(" ".join(words), []).append(past.answered(folder, *words)[0])
    return found


def run(args: argparse.Namespace) -> Report:
    """Both parts."""
    goals, notes = [], []
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
        if args.events:
            for title, seconds in reported(args, Path(name)).items():
                title = f"CPU seconds of {title}"
                goals.append(measure.verdict(title, seconds, "<=", MOST_SECONDS))
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
        if args.lists:
            ledger = Ledger(reports.opened(Path(name), bool(args.postgres)))
            if args.postgres:
                with ledger.store.engine.connect() as connection:
                    text = "SELECT pg_backend_pid()"
                    ledger.pids.append(connection.exec_driver_sql(text).scalar_one())
            for part in ledgers.parts(lists(args.lists), 100):
                ledger.take(part)
            costs = [recorded(ledger, args, number) for number in range(args.rounds)]
            goals.append(measure.verdict("CPU ms of a late record", costs, "<=", MOST_MS))
            ledger.store.close()
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    sizes = {"events": 1_000_000, "lists": 50_000, "records": 200, "postgres": 0}
    raise SystemExit(measure.main(run, "What the age of a history costs.", **sizes))

"""`bursar import events` as a whole process: events a second, and bytes written to disk for each event.

    python -m tests.benchmarks.imports [--events 100000] [--rounds 1] [-o json]

Each round imports the same file into an empty folder with the embedded bus, which flushes before every acknowledgement, and
counts the ledger's events. Bytes are those of the kernel (``write_bytes`` of /proc/PID/io) of all processes: pages made
dirty, whole ones. The kernel adds what a child wrote and used to its parent once that has waited for it, so each sample is the sum
over those that live, and the largest sample counts. Wall time and start are included. A million events need 3 GB of disk.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bus.envelope import to_line
from tests.benchmarks import measure, synthetic
from tests.benchmarks.measure import Report


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _sampled(pid: int) -> tuple[int, float]:
    """Bytes written and CPU seconds used so far by a process and its children, those that have ended included."""
    written, cpu = 0, 0.0
    for one in (pid, *_children(pid)):
        try:
            lines = Path(f"/proc/{one}/io").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        written += int(dict(line.split(": ") for line in lines)["write_bytes"])
        cpu += measure.cpu_seconds([one])
    return written, cpu


def imported(file: Path, data: Path, count: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds and bytes for each event of one import. Raises SystemExit where it fails."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    program = Path(sys.executable).with_name("bursar")
    begun = time.perf_counter()
    process = subprocess.Popen(
        [program, "import", "events", file, "--data", data, "-o", "json"],
        env=kept, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    written, cpu = 0, 0.0
    while process.poll() is None:
        # Not there any more: it ended while it was looked at.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found = _sampled(process.pid)
            written, cpu = max(written, found[0]), max(cpu, found[1])
        time.sleep(0.02)
    seconds = time.perf_counter() - begun
    said = process.communicate()[0]
    # One more says where they came from.
    if process.returncode or json.loads(said)["projected"] != count + 1:
        raise SystemExit(f"the import ended with {process.returncode}: {said}")
    return seconds, cpu, written / count


def run(args: argparse.Namespace) -> Report:
    """All rounds."""
    rates, bytes_, cpus = [], [], []
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
        file = Path(name) / "events.ndjson"
        with file.open("wb") as out:
            for event in synthetic.events(args.events):
                out.write(to_line(event) + b"\n")
        for number in range(args.rounds):
            seconds, cpu, each = imported(file, Path(name) / f"data-{number}", args.events)
            rates.append(args.events / seconds)
            bytes_.append(each)
            cpus.append(cpu / args.events * 1e6)
        size = file.stat().st_size / args.events
    goals = [
        measure.verdict("events a second, start included", rates, ">=", 8_000),
        measure.verdict("bytes written for each event", bytes_, "<=", 6_000),
    ]
    told = ", ".join(f"{cpu:.0f}" for cpu in cpus)
    notes = [
        f"{args.events} events of {size:.0f} bytes; CPU of all processes, us an event: {told}",
        f"load average at the end {os.getloadavg()[0]:.1f}",
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "A whole import.", events=100_000))

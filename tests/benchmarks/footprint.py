"""What ``bursar up`` occupies when there is nothing to do: memory of its processes, the embedded bus included.

    python -m tests.benchmarks.footprint [--rounds 5] [-o json]

One start a round, as a user starts it, on an empty cluster of ``tests/cluster``; after 20 s the proportional set size (PSS,
shared pages divided among those who share them) of the process and its children is added up. Goal: under 250 MiB.
That it follows live pods and not history is shown by :mod:`tests.benchmarks.replay`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.cluster.plane import ControlPlane

SETTLED_SECONDS = 20
MIB = 1024 * 1024


def footprint(plane: ControlPlane, folder: Path) -> dict[str, float]:
    """MiB by program."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from deploy.cli import main; main()", "up", "--data", str(folder)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
    )
    try:
        time.sleep(SETTLED_SECONDS)
        if process.poll() is not None:
            raise SystemExit("bursar up ended by itself")
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
        return {
            f"{one.name()} {one.pid}": round(one.memory_full_info().pss / MIB, 1) for one in family
        }
    finally:
        process.terminate()
        process.wait(30)


def run(args: argparse.Namespace) -> Report:
    """All rounds on one control plane."""
    with (
        tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder,
        ControlPlane(controllers=False, scheduler=False, simulator=False) as plane,
    ):
        told = [footprint(plane, Path(folder) / str(number)) for number in range(args.rounds)]
    goals = [measure.verdict("idle PSS, MiB", [sum(t.values()) for t in told], "<=", 250)]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": [str(told[-1])]}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "What bursar up occupies."))

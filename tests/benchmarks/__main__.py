"""Runs the benchmarks, each in a process of its own, so that none inherits another's memory.

    python -m tests.benchmarks [name …] [--rounds 5] [-o json|table]

Without names all of them run, one after the other. Exit status 1 when a goal is not met or a benchmark failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from tests.benchmarks import measure

NAMES = (
    "bus",
    "writers",
    "translate",
    "pipeline",
    "folding",
    "readers",
    "imports",
    "replay",
    "live",
    "claims",
    "lists",
    "footprint",
    "starts",
    "start",
    "lab",
    "past",
    "age",
    "segments",
    "history_size",
    "elastic",
    "culling",
    "admission",
    "created",
    "queue",
    "jobs",
    "cluster_state",
    "scheduling",
    "rederive",
    "scale",
    "gangs",
    "bindings",
    "schedulers",
)


def report_of(name: str, rounds: int) -> measure.Report | None:
    """The report of one benchmark; None where it failed, which it says on stderr itself."""
    command = [
        sys.executable,
        "-m",
        f"tests.benchmarks.{name}",
        "--rounds",
        str(rounds),
        "-o",
        "json",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    try:
        found: measure.Report = json.loads(done.stdout)
    except ValueError:
        return None
    return found


def main() -> int:
    """Run what was named and print each report as it comes (as one JSON object at the end)."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NAMES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    args = parser.parse_args()
    if unknown := set(args.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    reports = {}
    for name in args.names or NAMES:
        report = reports[name] = report_of(name, args.rounds)
        if args.output == "table":
            print(f"== {name} ==\n{measure.shown(report) if report else 'FAILED'}\n", flush=True)
    if args.output == "json":
        print(json.dumps(reports, indent=2))
    return 0 if all(r and all(g["met"] for g in r["goals"]) for r in reports.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())

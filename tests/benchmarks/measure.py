"""What every benchmark shares: the clock, interleaved rounds, the judgement of ratios, the printed table.

Ratios in one run are what counts (tests/benchmarks/README.md): every round runs each variant once, neighbours swapping
places from round to round, so that both meet the same moment of a noisy machine. The first round warms up and is
not counted. A goal is met when the *median* of the per-round ratios meets it.

A report is a plain dict with the shape that ``tests.benchmarks.bus`` prints too: ``per_event`` (medians of each
variant), ``goals`` (ratio min/median/max, goal, met) and ``notes``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

Report = dict[str, Any]

_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Microseconds per item."""

    cpu: float
    wall: float


class Goal(NamedTuple):
    """``measure`` of ``above`` over that of ``below``, against ``limit``; without ``below`` the figure itself."""

    title: str
    measure: str
    above: str
    below: str | None
    sign: str
    limit: float


Variant = Callable[[int], Cost]


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU of other processes so far, those that have ended and were waited for by them included."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except FileNotFoundError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


class Stopwatch:
    """``with Stopwatch(pids) as clock: …`` then ``clock.cost(items)``; CPU of ``pids`` is added to our own.

    The collector runs before and stays on: a ledger in use pays for it too.
    """

    def __init__(self, pids: Iterable[int] = ()) -> None:
        self._pids = list(pids)

    def __enter__(self) -> Stopwatch:
        gc.collect()
        self._others = cpu_seconds(self._pids)
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_seconds = time.perf_counter() - self._wall
        self.cpu_seconds = time.process_time() - self._cpu
        self.cpu_seconds += cpu_seconds(self._pids) - self._others

    def cost(self, items: int) -> Cost:
        """Per item, in microseconds."""
        return Cost(self.cpu_seconds / items * 1e6, self.wall_seconds / items * 1e6)


def interleaved(variants: dict[str, Variant], rounds: int) -> list[dict[str, Cost]]:
    """The costs of each variant in each round. A variant gets the round's number (0 is the warm-up)."""
    results = []
    for number in range(rounds + 1):
        names = list(variants) if number % 2 else list(reversed(variants))
        costs = {name: variants[name](number) for name in names}
        if number:
            results.append({name: costs[name] for name in variants})
    return results


def judged(
    results: list[dict[str, Cost]], goals: Iterable[Goal], notes: Iterable[str] = ()
) -> Report:
    """The report over all rounds."""
    per_event = {
        name: {
            "cpu_us": round(statistics.median(r[name].cpu for r in results), 2),
            "wall_us": round(statistics.median(r[name].wall for r in results), 2),
        }
        for name in results[0]
    }
    return {
        "rounds": len(results),
        "per_event": per_event,
        "goals": [_judged(goal, results) for goal in goals],
        "notes": [*notes, f"load average at the end {os.getloadavg()[0]:.1f}"],
    }


def _judged(goal: Goal, results: list[dict[str, Cost]]) -> dict[str, Any]:
    figures = [
        getattr(r[goal.above], goal.measure)
        / (getattr(r[goal.below], goal.measure) if goal.below else 1)
        for r in results
    ]
    return verdict(goal.title, figures, goal.sign, goal.limit)


def verdict(title: str, figures: list[float], sign: str, limit: float) -> dict[str, Any]:
    """One goal's line: the spread of its figures, and whether their median meets it."""
    median = statistics.median(figures)
    return {
        "ratio": title,
        "min": round(min(figures), 3),
        "median": round(median, 3),
        "max": round(max(figures), 3),
        "goal": f"{sign} {limit:g}",
        "met": median <= limit if sign == "<=" else median >= limit,
    }


def shown(report: Report) -> str:
    """The report as a table."""
    lines = []
    if report["per_event"]:
        lines += [f"{'variant':<34}{'CPU us/item':>14}{'wall us/item':>15}"]
    for name, cost in report["per_event"].items():
        lines.append(f"{name:<34}{cost['cpu_us']:>14.2f}{cost['wall_us']:>15.2f}")
    lines += ["", f"{'goal':<66}{'min':>10}{'median':>10}{'max':>10}"]
    for goal in report["goals"]:
        lines.append(
            f"{goal['ratio']:<66}{goal['min']:>10.3f}{goal['median']:>10.3f}{goal['max']:>10.3f}"
            f"  {goal['goal']:<9}{'met' if goal['met'] else 'NOT MET'}"
        )
    return "\n".join([*lines, *(f"  {note}" for note in report.get("notes", ()))])


def main(run: Callable[[argparse.Namespace], Report], title: str, **options: int | Path) -> int:
    """Run one benchmark from the command line and print it; exit status 1 when a goal is not met.

    ``options`` are further integers and files it takes, with their defaults: ``events=20_000`` gives ``--events``.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    for name, default in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    args = parser.parse_args()
    report = run(args)
    print(json.dumps(report, indent=2) if args.output == "json" else shown(report))
    return 0 if all(goal["met"] for goal in report["goals"]) else 1

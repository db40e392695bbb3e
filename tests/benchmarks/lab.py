"""Policies of culling, quotas and scheduling on a month of mixed history: seconds of whole processes of `bursar lab`.

    python -m tests.benchmarks.lab [--events 1000000] [--rounds 1] [-o json]

The month has a tick every ten seconds (259,200), looks every 150 s at 17 notebooks whose users come and go (293,794), jobs of
eight quotas with their admission, queues and bindings, as `quota_traffic.py` has them (some 217,000), and for the rest
lives of other pods, as `synthetic.py` has them. They are archived once. Each round asks for the whole month: a limit of one
hour under all three rules, more or less room in four of the quotas under all four, elastic quotas that give back, and nodes that
are packed under all three.
The month shrinks with the number of events. Goal: a million under two minutes each.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bus.amounts import ContainerResources, PodResources
from bus.clock import SECOND_US, format_stamp
from bus.envelope import Event
from bus.events.clock import LEADER, ClockTicked
from bus.events.notebooks import Evidence, NotebookSampled
from bus.events.pods import Owner, PodObserved, encoded_resources
from bus.events.workloads import WorkloadObserved
from tests.benchmarks import measure, quota_traffic, synthetic
from tests.benchmarks.measure import Report
from tests.benchmarks.past import archive, asked

#: Of a million events.
GOAL_SECONDS = 120.0
MONTH_SECONDS = 30 * 86_400
TICK, LOOK, NOTEBOOKS = 10, 150, 17
#: So many fit onto the nodes that there are, with a third of the GPUs free.
LIVE_PODS = 700
BEGIN_US = synthetic.BEGIN_US
RESOURCES = encoded_resources(
    PodResources(containers=(ContainerResources(requests=synthetic.SHAPES[2]),))
)
POLICY = (
    "culling: {policy: {idle_seconds: 3600}}\nevictions: {policy: {monitor_all_quotas: true}}\n"
)
PACKED = (
    "scheduling: {policy: {profiles: [{fields: {NodeResourcesFit: {strategy: MostAllocated}}}]}}\n"
)
#: Two quotas that refuse, and two with queues.
LIMITS = (
    "quotas: {"
    + ", ".join(f"group-{n}: {{limits.cpu: {cpu}}}" for n, cpu in enumerate((32, 32, 48, 48)))
    + "}\n"
)


def history(count: int) -> Iterator[Event]:
    """So many events, by time."""
    seconds = MONTH_SECONDS * count // 1_000_000
    traffic = sum(1 for quota in quota_traffic.events(seconds, BEGIN_US) for _ in quota)
    others = count - traffic - seconds // TICK - NOTEBOOKS * (seconds // LOOK + 2)
    events = heapq.merge(
        _ticks(seconds),
        *(_notebook(number, seconds) for number in range(NOTEBOOKS)),
        *quota_traffic.events(seconds, BEGIN_US),
        _others(others, seconds),
        key=lambda event: event.time_us,
    )
    for sequence, event in enumerate(events, 1):
        yield msgspec.structs.replace(event, sequence=sequence)


def _others(count: int, seconds: int) -> Iterator[Event]:
    for number, event in enumerate(synthetic.events(count, live=LIVE_PODS)):
        at_us = BEGIN_US + number * seconds * SECOND_US // count
        yield msgspec.structs.replace(event, time_us=at_us)


def _ticks(seconds: int) -> Iterator[Event]:
    for at in range(TICK, seconds + 1, TICK):
        yield _said(ClockTicked(), LEADER, f"tick/{at}", at)


def _notebook(number: int, seconds: int) -> Iterator[Event]:
    """One notebook that is used for an hour or two, twice a day, and its looks."""
    rng = random.Random(number)
    uid, top, namespace = f"notebook-{number}", f"top-{number}", f"team-{number % 5}"
    yield _said(
        WorkloadObserved(
            uid=top, kind="Notebook", namespace=namespace, name=uid, resource_version="1"
        ),
        top, f"{top}/1", 0,
    )  # fmt: skip
    begin = format_stamp(BEGIN_US)
    yield _said(
        PodObserved(
            uid=uid, namespace=namespace, name=f"{uid}-0", resource_version="1", created=begin, scheduled=begin,
            phase="Running", node="node-1", owner=Owner("Notebook", uid, top), resources=RESOURCES,
        ),
        uid, f"{uid}/1", 0,
    )  # fmt: skip
    starts, active = rng.randrange(3_600), 0
    ends = starts + rng.randrange(1_800, 7_200)
    for at in range(LOOK + number % LOOK, seconds + 1, LOOK):
        if at >= ends:
            active, starts = ends, ends + rng.randrange(7_200, 57_600)
            ends = starts + rng.randrange(1_800, 7_200)
        evidence = Evidence(
            source="jupyter_kernels", busy=starts <= at, active_us=BEGIN_US + active * SECOND_US
        )
        fact = NotebookSampled(uid=uid, image="jupyter/base", evidence=(evidence,))
        yield _said(fact, uid, f"{uid}/{at}/sampled", at)


def _said(fact, key: str, id: str, at: int) -> Event:
    return fact.event(
        cluster=synthetic.CLUSTER,
        key=key,
        id=id,
        source="benchmark",
        time_us=BEGIN_US + at * SECOND_US,
    )


def run(args: argparse.Namespace) -> Report:
    """All rounds over one history."""
    questions = {
        "lab": ("lab", "--policy"),
        "lab quotas": ("lab", "quotas", "--limits"),
        "lab evictions": ("lab", "evictions", "--policy"),
        "lab scheduling": ("lab", "scheduling", "--policy"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in questions}
    used: dict[str, list[float]] = {name: [] for name in questions}
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder:
        data = Path(folder)
        archive(data / "ledger.db", args.events, history)
        (data / "tried.yaml").write_text(POLICY + LIMITS + PACKED)
        for _ in range(args.rounds):
            for name, question in questions.items():
                started = time.perf_counter()
                told = asked(
                    data, "", *question, data / "tried.yaml", "--cluster", synthetic.CLUSTER
                )
                used[name].append(told[0])
                seconds[name].append(time.perf_counter() - started)
    goals = [
        measure.verdict(f"seconds of a month, {name}", seconds[name], "<=", GOAL_SECONDS)
        for name in questions
    ]
    notes = [f"{name}: CPU {statistics.median(used[name]):.1f} s" for name in questions]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "A policy on a month of history.", events=1_000_000))

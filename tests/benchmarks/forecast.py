"""How far forecasts of a budget are off on a recorded trace, against straight lines.

    python -m tests.benchmarks.forecast --trace openb_pod_list_default.csv [-o json]

The trace is openb's list of pods (github.com/alibaba/clusterdata, cluster-trace-gpu-v2023): GPU-hours of 50 days, by quality of
service and by five teams that pods are dealt to by their numbers. Every 36 hours each group gets a budget that it really spent in
the next 3, 7 and 14 days, and is asked when that will be used up. *straight*: by what it spends at that moment, as `exhausts_at`.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

from projections.budgets.outlook import AHEAD_DAYS, DAY, outlook
from tests.benchmarks import measure
from tests.benchmarks.measure import Report

#: Before that few pods are in the trace.
FIRST_DAY, DAYS = 90, 150
TEAMS, EVERY, KNOWN_DAYS = 5, 36, 14


def spent(trace: Path) -> dict[str, list[int]]:
    """Milli-GPU-seconds by group and hour."""
    found: dict[str, list[int]] = defaultdict(lambda: [0] * (DAYS * DAY))
    with trace.open() as file:
        for number, row in enumerate(csv.DictReader(file)):
            amount = int(row["num_gpu"]) * int(row["gpu_milli"] or 0)
            if not row["scheduled_time"] or not amount:
                continue
            start, end = int(row["scheduled_time"]), int(row["deletion_time"])
            for hour in range(start // 3_600, min(-(-end // 3_600), DAYS * DAY)):
                part = min(end, (hour + 1) * 3_600) - max(start, hour * 3_600)
                for group in ("all", row["qos"], f"team-{number % TEAMS}"):
                    found[group][hour] += amount * part
    return {group: hours[FIRST_DAY * DAY :] for group, hours in found.items()}


def run(args: argparse.Namespace) -> Report:
    """Every forecast of the trace."""
    groups, goals = spent(args.trace), []
    most = AHEAD_DAYS * DAY
    for days in (3, 7, 14):
        ahead, off, straight, held = days * DAY, list[int](), list[int](), 0
        for group, hours in sorted(groups.items()):
            for now in range(KNOWN_DAYS * DAY, len(hours) - ahead, EVERY):
                left = sum(hours[now : now + ahead])
                found = outlook(hours[:now], left, None, f"{group}/{now}") if left else None
                if found is None:
                    continue
                rate = hours[now - 1]
                off.append(abs((most if found.likely is None else found.likely) - ahead))
                straight.append(abs(min(-(-left // rate), most) - ahead if rate else most - ahead))
                latest = most if found.latest is None else found.latest
                held += (most if found.earliest is None else found.earliest) <= ahead <= latest
        words = f"of {len(off)} forecasts {days} days ahead"
        for name, of in (("median", median), ("mean", mean)):
            ratio = of(off) / of(straight)
            said = f"{name} error {words} ({of(off):.0f} h) by that of straight lines ({of(straight):.0f} h)"
            goals.append(measure.verdict(said, [ratio], "<=", 1))
        share = held / len(off)
        goals.append(measure.verdict(f"in the interval, {words}", [share], ">=", 0.8))
    return {"rounds": 1, "per_event": {}, "goals": goals, "notes": []}


if __name__ == "__main__":
    raise SystemExit(
        measure.main(
            run,
            "Forecasts of budgets on a recorded trace.",
            trace=Path("openb_pod_list_default.csv"),
        )
    )

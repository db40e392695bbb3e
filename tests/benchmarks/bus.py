"""What the bus adapter costs, against nats-py's own ways, on a real server of its own.

    python -m tests.benchmarks.bus [--events N] [--rounds 5] [-o json]

Each round runs every variant once, in an order that turns, on the same server and machine state, so a
ratio compares neighbours in time. Judged is the median of the ratios per round. CPU is the process time of this
client (the server has its own process), wall is the time until the last acknowledgement or message.

Events have 600 to 1000 bytes of body and our full envelope. The controls get everything for nothing that is not
theirs: subjects, headers and bodies are made before the clock starts, and they carry only `Nats-Msg-Id`, while
ours makes and checks all eight headers inside the measured time; the reading control does not decode.

Source: tests/benchmarks/README.md (goals 1 to 3).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from bus.embedded import EmbeddedServer
from bus.envelope import Event
from bus.jetstream import JetStream
from bus.streams import Stream

Cost = tuple[float, float]

#: Ratio, its measure (index into a cost: 0 CPU, 1 wall), its two variants, and the goal.
GOALS = (
    (
        "publish CPU, ids, default sync: ours / publish_async",
        0,
        "publish",
        "publish_async",
        "<=",
        0.5,
    ),
    (
        "publish wall, sync always: one by one / atomic batches",
        1,
        "one_by_one",
        "atomic",
        ">=",
        10.0,
    ),
    ("read CPU: ours with decode / nats-py fetch(1000)", 0, "read", "fetch", "<=", 0.30),
)


def events_of(run: str, count: int) -> list[Event]:
    """Events no two runs share, so that no duplicate window is touched."""
    return [
        Event(
            "c1",
            "pod.observed",
            f"2f6c1d9e-77aa-4c0e-9d2b-{n % 3000:012d}",
            f"2f6c1d9e-77aa-4c0e-9d2b-{n % 3000:012d}/{n}/{run}",
            "kubernetes/pods",
            1_700_000_000_000_000 + n * 1_003,
            b'{"uid":"2f6c1d9e","phase":"Running","n":%d,"pad":"%s"}' % (n, b"x" * (560 + n % 400)),
        )
        for n in range(count)
    ]


async def measured(work: Callable[[], Awaitable[int]], count: int) -> Cost:
    """CPU and wall microseconds per event of one run, with the collector out of the way."""
    gc.collect()
    gc.disable()
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        done = await work()
        cost = (time.process_time() - cpu, time.perf_counter() - wall)
    finally:
        gc.enable()
    assert done == count, f"{done} of {count} arrived"
    return cost[0] / count * 1e6, cost[1] / count * 1e6


class Bench:
    """One server, our adapter and nats-py's connection to it."""

    def __init__(self, server: EmbeddedServer, name: str) -> None:
        self.server = server
        self.stream = Stream(name, ("bursar.*.>",))

    async def open(self) -> None:
        self.door = await JetStream.connect(
            self.server.url, self.stream, credentials=self.server.credentials
        )
        user, password = self.server.credentials
        self.nc = await nats.connect(self.server.url, user=user, password=password)
        self.js = self.nc.jetstream(publish_async_max_pending=4000)

    async def close(self) -> None:
        await self.nc.close()
        await self.door.close()

    async def publish(self, run: str, count: int) -> Cost:
        """Our publisher: atomic batches of 1000, ids, all headers."""
        events = events_of(run, count)

        async def work() -> int:
            return len(await self.door.publish(events))

        return await measured(work, count)

    async def publish_async(self, run: str, count: int) -> Cost:
        """nats-py's fastest publisher with acknowledgements, 4000 pending, ids only."""
        ready = [(e.subject, e.body, {"Nats-Msg-Id": e.id}) for e in events_of(run, count)]

        async def work() -> int:
            futures = [
                await self.js.publish_async(subject, body, headers=headers)
                for subject, body, headers in ready
            ]
            return len(await asyncio.gather(*futures))

        return await measured(work, count)

    async def one_by_one(self, run: str, count: int) -> Cost:
        """nats-py's plain publish: one acknowledgement awaited after the other."""
        ready = [(e.subject, e.body, {"Nats-Msg-Id": e.id}) for e in events_of(run, count)]

        async def work() -> int:
            return len([await self.js.publish(s, b, headers=h) for s, b, h in ready])

        return await measured(work, count)

    async def read(self, count: int) -> Cost:
        """Our reader over the newest `count` events, decoded."""
        after = (await self.door.head()).last_sequence - count

        async def work() -> int:
            return sum([len(part) async for part in self.door.read(after=after, live=False)])

        return await measured(work, count)

    async def fetch(self, count: int) -> Cost:
        """nats-py's pull subscription over the same, fetch(1000), no acknowledgements, not decoded."""
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=(await self.door.head()).last_sequence - count + 1,
        )
        subscription = await self.js.pull_subscribe(
            "bursar.*.>", stream=self.stream.name, config=config
        )

        async def work() -> int:
            seen = 0
            while seen < count:
                seen += len(await subscription.fetch(1000, timeout=10))
            return seen

        try:
            return await measured(work, count)
        finally:
            await subscription.unsubscribe()


async def rounds(args: argparse.Namespace, folder: Path) -> list[dict[str, Cost]]:
    """The costs of every variant in every round; the first round warms up and is not counted."""
    default = EmbeddedServer(folder / "default", sync_always=False)
    always = EmbeddedServer(folder / "always")
    results = []
    async with default, always:
        fast, safe = Bench(default, "FAST"), Bench(always, "SAFE")
        await fast.open()
        await safe.open()
        for number in range(args.rounds + 1):
            cost = await one_round(args, fast, safe, number)
            if number:
                results.append(cost)
        await fast.close()
        await safe.close()
    return results


async def one_round(
    args: argparse.Namespace, fast: Bench, safe: Bench, number: int
) -> dict[str, Cost]:
    """Every variant once; neighbours swap places from round to round."""
    count, slow = args.events, max(args.events // 10, 1000)
    costs: dict[str, Cost] = {}
    pairs: list[list[tuple[str, Callable[[], Awaitable[Cost]]]]] = [
        [
            ("publish", lambda: fast.publish(f"a{number}", count)),
            ("publish_async", lambda: fast.publish_async(f"b{number}", count)),
        ],
        [
            ("atomic", lambda: safe.publish(f"c{number}", count)),
            ("one_by_one", lambda: safe.one_by_one(f"d{number}", slow)),
        ],
    ]
    for pair in pairs:
        for name, run in pair if number % 2 else reversed(pair):
            costs[name] = await run()
    reads: list[tuple[str, Callable[[], Awaitable[Cost]]]] = [
        ("read", lambda: fast.read(count)),
        ("fetch", lambda: fast.fetch(count)),
    ]
    for name, run in reads if number % 2 else reversed(reads):
        costs[name] = await run()
    return costs


def judged(results: list[dict[str, Cost]]) -> dict[str, object]:
    """Medians of every variant, and each goal's ratio with its spread."""
    variants = {
        name: {
            "cpu_us": round(statistics.median(r[name][0] for r in results), 2),
            "wall_us": round(statistics.median(r[name][1] for r in results), 2),
        }
        for name in results[0]
    }
    goals = []
    for title, measure, above, below, sign, goal in GOALS:
        ratios = [r[above][measure] / r[below][measure] for r in results]
        median = statistics.median(ratios)
        goals.append(
            {
                "ratio": title,
                "min": round(min(ratios), 3),
                "median": round(median, 3),
                "max": round(max(ratios), 3),
                "goal": f"{sign} {goal}",
                "met": median <= goal if sign == "<=" else median >= goal,
            }
        )
    return {"rounds": len(results), "per_event": variants, "goals": goals}


def shown(report: dict[str, object]) -> str:
    """The report as a table."""
    lines = [f"{'variant':<16}{'CPU us/event':>14}{'wall us/event':>15}"]
    for name, cost in report["per_event"].items():  # type: ignore[attr-defined]
        lines.append(f"{name:<16}{cost['cpu_us']:>14.2f}{cost['wall_us']:>15.2f}")
    lines += ["", f"{'ratio':<58}{'min':>8}{'median':>8}{'max':>8}  goal"]
    for goal in report["goals"]:  # type: ignore[attr-defined]
        lines.append(
            f"{goal['ratio']:<58}{goal['min']:>8.3f}{goal['median']:>8.3f}{goal['max']:>8.3f}"
            f"  {goal['goal']:<8}{'met' if goal['met'] else 'NOT MET'}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run and print; exit status 1 when a goal is not met."""
    parser = argparse.ArgumentParser(description="What the bus adapter costs against nats-py.")
    parser.add_argument("--events", type=int, default=20_000, help="events per variant and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder:
        report = judged(asyncio.run(rounds(args, Path(folder))))
    print(json.dumps(report, indent=2) if args.output == "json" else shown(report))
    return 0 if all(goal["met"] for goal in report["goals"]) else 1  # type: ignore[attr-defined]


if __name__ == "__main__":
    raise SystemExit(main())

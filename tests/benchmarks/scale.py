"""A large cluster, role by role: first sync, CPU while it changes, memory, and how long reports take.

    python -m tests.benchmarks.scale [--nodes 5000] [--pods 100000] [--namespaces 10000] [--seconds 30] [--rate 500] [-o json]

The history is made up: namespaces, nodes, Jobs, and each pod twice, as it is made and as it runs. The processes are real, each
on the same bus: `bursar ledger`, `bursar webhook` in shadow, and what `bursar act` has in memory (quotas and all reactors in
shadow, in a process of this module, since there is no cluster to act on). *First sync* is from the start of a process on the
whole history until it has taken in the last event. Then pods change at a steady rate, and the CPU of each process in that time
is its load. Memory is the proportional set size (PSS) after that. Reports are whole processes of the command line.

``docs/scaling.md`` has what follows for other sizes. One round: there is nothing beside it to compare with.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bus.clock import SystemClock
from bus.embedded import EmbeddedServer
from bus.envelope import Event
from bus.events.namespaces import NamespaceObserved
from bus.jetstream import JetStream
from bus.sharing import SharedReading
from bus.streams import history
from deploy.runtime.reactors import acting
from reactors.admitting import following
from reactors.catalogue import REACTORS
from tests.benchmarks import cluster_state, ledgers, measure
from tests.benchmarks.measure import Report

BEGIN_US = 1_790_000_000_000_000
MIB = 2**20
#: What each says once it has taken in the history; the ledger's rows say it.
WORDS = {"ledger": "writing the ledger", "webhook": "answering", "act": "following"}
#: Longest wait for a process, seconds.
PATIENCE = 1_800
REPORTS = (
    ("report", "--by", "team"), ("report", "--by", "namespace", "--top", "20"), ("report", "--by", "team", "--amounts"),
    ("acct", "-n", "team-7"), ("get", "quotas"), ("status",),
)  # fmt: skip


def events(cluster: cluster_state.Cluster, namespaces: int) -> Iterator[Event]:
    """All that is there, once; pods as they are made and as they run."""
    for number in range(namespaces):
        name = f"team-{number}"
        fact = NamespaceObserved(
            uid=f"ns-{number}", name=name, resource_version="1", team=f"team-{number % 100}"
        )
        yield fact.event(cluster="c", key=name, id=f"ns/{number}", source="bench", time_us=BEGIN_US)
    for number, event in enumerate(cluster.events()):
        yield told(event, f"first/{number}", BEGIN_US + number * 1_000)


def told(event: Event, id: str, time_us: int) -> Event:
    """The fact as a source says it."""
    return msgspec.structs.replace(event, id=id, source="bench", time_us=time_us)


class Role:
    """A process, and what it costs."""

    def __init__(self, name: str, folder: Path, command: list[str], **environment: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            given = {**os.environ, "BURSAR_DATA": str(folder), **environment}
            self.process = subprocess.Popen(command, env=given, stdout=log, stderr=log)

    def cpu(self) -> float:
        """CPU seconds so far."""
        return measure.cpu_seconds([self.process.pid])

    def pss(self) -> float:
        """MiB."""
        return float(psutil.Process(self.process.pid).memory_full_info().pss) / MIB

    def until(self, word: str) -> None:
        """Return when its log has the word."""
        ends = time.monotonic() + PATIENCE
        while word not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > ends:
                raise SystemExit(f"{self.name}: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)


async def act(url: str, user: str, password: str) -> None:
    """What `bursar act` follows and keeps in memory, without a cluster; says at which event it is."""
    async with AsyncExitStack() as stack:
        door = await JetStream.connect(url, history(), credentials=(user, password))
        stack.push_async_callback(door.close)
        shared = SharedReading(door)
        last = (await door.head()).last_sequence
        admission = await stack.enter_async_context(
            following(shared, SystemClock(), cluster="c", source="keeper/bench", keeps=True)
        )
        wanted: Any = {one.name: ("shadow", one.policy()) for one in REACTORS if one.policy}
        runner = await stack.enter_async_context(acting(shared, None, wanted, name="c"))
        while min(admission.journals.sequence, runner.replica.sequence) < last:
            await asyncio.sleep(0.05)
        print("following", flush=True)
        await asyncio.Event().wait()


def ledger_reached(url: Path, sequence: int, role: Role) -> None:
    """Return when the ledger holds the event."""
    store = ledgers.Store(ledgers.engine(f"sqlite:///{url}", read_only=True))
    ends = time.monotonic() + PATIENCE
    while store.checkpoint("").sequence < sequence:
        if role.process.poll() is not None or time.monotonic() > ends:
            raise SystemExit(role.log.read_text()[-2000:])
        time.sleep(0.1)
    store.close()


async def measured(args: argparse.Namespace, folder: Path) -> list[str]:
    """The lines of one run."""
    cluster = cluster_state.Cluster(args)
    lines, roles = list[str](), list[Role]()
    async with EmbeddedServer(folder) as server:
        door = await JetStream.connect(server.url, history(), credentials=server.credentials)
        for part in ledgers.parts(events(cluster, args.namespaces)):
            await door.publish(part)
        last = (await door.head()).last_sequence
        lines.append(f"{last:,} events of {args.namespaces:,} namespaces, {args.nodes:,} nodes, {args.pods:,} pods")  # fmt: skip
        user, password = server.credentials
        bus = {"BURSAR_BUS__URL": server.url.replace("//", f"//{user}:{password}@"), "BURSAR_CLUSTER__NAME": "c"}  # fmt: skip
        program = [sys.executable, "-c", "from deploy.cli import main; main()"]
        webhook = {f"BURSAR_ADMISSION__{k}": v for k, v in (("MODE", "shadow"), ("PORT", "0"), ("HOST", "127.0.0.1"))}  # fmt: skip
        commands = {
            "ledger": ([*program, "ledger"], bus),
            "webhook": ([*program, "webhook"], bus | webhook),
            "act": ([sys.executable, "-m", "tests.benchmarks.scale", "--act", server.url, user, password], {}),
        }  # fmt: skip
        try:
            for name, (command, environment) in commands.items():
                own = folder if name == "ledger" else folder / name
                own.mkdir(exist_ok=True)
                began = time.monotonic()
                roles.append(role := Role(name, own, command, **environment))
                await asyncio.to_thread(role.until, WORDS[name])
                if name == "ledger":
                    await asyncio.to_thread(ledger_reached, folder / "ledger.db", last, role)
                lines.append(
                    f"{name}: first sync {time.monotonic() - began:.1f} s, CPU {role.cpu():.1f} s, {role.pss():.0f} MiB"
                )
            lines += await churned(args, cluster, door, roles, folder)
        finally:
            for role in roles:
                role.process.terminate()
                role.process.wait(60)
            await door.close()
        lines.append(f"ledger of {(folder / 'ledger.db').stat().st_size / MIB:.0f} MiB")
        for words in REPORTS:
            began = time.monotonic()
            before = os.times()
            done = subprocess.run([*program, *words, "--data", str(folder)], capture_output=True, text=True)  # fmt: skip
            after = os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system  # fmt: skip
            took = time.monotonic() - began
            lines.append(
                f"bursar {' '.join(words)}: {took:.1f} s, CPU {cpu:.1f} s, code {done.returncode}"
            )
    return lines


def servers_cpu() -> float:
    """CPU seconds of the bus so far."""
    children = psutil.Process().children()
    return measure.cpu_seconds([one.pid for one in children if "nats" in one.name()])


async def churned(
    args: argparse.Namespace, cluster: cluster_state.Cluster, door: JetStream, roles: list[Role], folder: Path
) -> list[str]:  # fmt: skip
    """The load of each process while pods change."""
    before = [role.cpu() for role in roles]
    bus_before = servers_cpu()
    began, count = time.monotonic(), args.seconds * args.rate
    changes = (cluster.pod(number % args.pods, is_bound=True) for number in range(count))
    stamped = (told(e, f"churn/{n}", BEGIN_US + (3 * 10**6 + n) * 1_000) for n, e in enumerate(changes))  # fmt: skip
    for number, part in enumerate(ledgers.parts(stamped, 20)):
        await asyncio.sleep(max(0.0, began + number * 20 / args.rate - time.monotonic()))
        await door.publish(part)
    took = time.monotonic() - began
    last = (await door.head()).last_sequence
    await asyncio.to_thread(ledger_reached, folder / "ledger.db", last, roles[0])
    await asyncio.sleep(2)
    bus = servers_cpu()
    lines = [f"{count:,} changes of pods, {count / took:.0f} a second"]
    lines.append(f"nats-server: {(bus - bus_before) / count * 1e6:.0f} us of CPU a change")
    for role, cpu in zip(roles, before, strict=True):
        lines.append(f"{role.name}: {(role.cpu() - cpu) / count * 1e6:.0f} us of CPU a change, {role.pss():.0f} MiB")  # fmt: skip
    return lines


def run(args: argparse.Namespace) -> Report:
    """One round."""
    args.workloads = args.pods // 5
    cluster_state.NAMESPACES = args.namespaces
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder:
        notes = asyncio.run(measured(args, Path(folder)))
    return {"rounds": 1, "per_event": {}, "goals": [], "notes": notes}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--act"]:
        asyncio.run(act(*sys.argv[2:]))
    else:
        sizes = {"nodes": 5_000, "pods": 100_000, "namespaces": 10_000, "seconds": 30, "rate": 500}
        raise SystemExit(measure.main(run, "A large cluster, role by role.", **sizes))

"""Queues on a real API server: how fast what is created suspended is released, and how full a quota is kept.

    python -m tests.benchmarks.queue [--rounds 1] [--jobs 1000] [--churn 1200] [-o json]

The control plane of ``tests/cluster``, etcd without fsync, 40 simulated nodes of 200 CPU; Bursar with a bus of its own
(sync always), sources, keeper, queues and webhooks in one process; a tree of 4 levels with 30 leaves; 16 clients in another
process.

- *burst*: 1,000 Jobs at once with quota for all. Releases a second, from the first create to the last start; the wait of
  each from its create to its start; API writes of ours for each Job, its create by the client included.
- *churn*: 1,200 Jobs of 15 s with quota for half. Of what the quota held for workloads over the time, how much ran:
  seconds between start and end of the pods over seconds charged; and what was held at most.

The load of the machine is in all of it, so it is told beside. Source: tests/benchmarks/README.md (Kueue there:
10 releases/s, p50 73 s, 12 writes and 126 ms of CPU a Job; used / held 0.21).
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import uvloop

from bus.embedded import EmbeddedServer
from bus.events.admissions import AdmissionDecided, AdmissionReleased
from bus.jetstream import JetStream
from bus.streams import history
from tests.acceptance.queueing import PATH, Site, job, queued
from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.cluster.plane import ControlPlane

LEAVES = 30
CLIENTS = 16
RUN_SECONDS = 15
LONGEST = 600.0


async def make_tree(site: Site, cpu: int) -> None:
    """Four levels, 30 leaves of the same size that can take ``cpu`` cores together; they hold, the others do not matter."""
    part = cpu // LEAVES
    await site.make_quota("root", cpu)
    for top in range(2):
        await site.make_quota(f"top-{top}", cpu // 2, "root")
        for middle in range(3):
            await site.make_quota(f"middle-{top}-{middle}", cpu // 6, f"top-{top}")
    for leaf in range(LEAVES):
        above = f"middle-{leaf % 2}-{leaf // 2 % 3}"
        await site.make_quota(f"leaf-{leaf}", part, above, order="BackFill")


def load(order: dict[str, Any]) -> None:
    """Create the Jobs from :data:`CLIENTS` connections; in a process of its own."""
    from tests.cluster.api import Api

    api = Api(order["url"], order["token"], order["ca"])

    def client(number: int) -> None:
        connection = api._connect(60)
        for one in range(number, order["jobs"], CLIENTS):
            name = f"{order['prefix']}-{one}"
            body = job(name, 1, f"leaf-{one % LEAVES}", order["seconds"])
            connection.request(
                "POST", PATH.format("default"), json.dumps(body), api._headers("application/json")
            )
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != http.client.CREATED:
                raise RuntimeError(said[:300])

    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(client, number) for number in range(CLIENTS)]:
            done.result()


async def created(plane: ControlPlane, jobs: int, seconds: int | None, prefix: str) -> None:
    """Run :func:`load` and wait for it."""
    order = {
        "url": plane.url, "token": plane.token, "ca": str(plane.ca_file),
        "jobs": jobs, "seconds": seconds, "prefix": prefix,
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.queue", "--load", stdin=subprocess.PIPE
    )
    await process.communicate(json.dumps(order).encode())
    assert process.returncode == 0, "the load failed"


class Watched:
    """What the journal said of Jobs with a prefix, as it was said."""

    def __init__(self, site: Site, prefix: str) -> None:
        self._site, self._prefix = site, prefix
        #: Of each released workload: (uid, second); and (second, cores that are held from then on).
        self.released: dict[str, float] = {}
        self.freed: dict[str, float] = {}
        self.held: list[tuple[float, int]] = []
        site.admission.journals.listen(self._take)

    def _take(self, event: Any) -> None:
        if event.type not in (AdmissionDecided.wire_type, AdmissionReleased.wire_type):
            return
        if event.type == AdmissionDecided.wire_type:
            fact = AdmissionDecided.read(event)
            if fact.reason == "released" and fact.name.startswith(self._prefix):
                self.released[fact.uid] = event.time_us / 1e6
        else:
            told = AdmissionReleased.read(event).releases
            self.freed.update((one.uid, event.time_us / 1e6) for one in told if not one.charge)
        nodes = self._site.admission.journals.tree("biz/root").nodes
        cores = sum(n.self_used.get("limits.cpu", 0) for n in nodes.values()) // 1000
        self.held.append((event.time_us / 1e6, cores))

    async def reach(self, probe: Any) -> None:
        """Wait until ``probe()`` holds."""
        async with asyncio.timeout(LONGEST):
            while not probe():
                await asyncio.sleep(0.05)


async def burst(site: Site, plane: ControlPlane, jobs: int) -> dict[str, float]:
    """Everything at once, with quota for all."""
    watched, patches = Watched(site, "burst"), len(site.cluster.patches)
    began, cpu = time.time(), time.process_time()
    task = asyncio.create_task(created(plane, jobs, None, "burst"))
    await watched.reach(lambda: len(site.cluster.patches) - patches >= jobs)
    releasing = site.admission.releasing
    await watched.reach(lambda: releasing.written >= jobs)
    took, cpu = time.time() - began, time.process_time() - cpu
    await task
    items = await site.jobs("default")
    mine = [one for one in items if one["metadata"]["name"].startswith("burst")]
    assert not any(one["spec"]["suspend"] for one in mine)
    waits = sorted(
        watched.released[one["metadata"]["uid"]] - stamp(one["metadata"]["creationTimestamp"])
        for one in mine
    )
    return {
        "rate": jobs / took,
        "p50": statistics.median(waits),
        "p99": waits[len(waits) * 99 // 100],
        "writes": (len(site.cluster.patches) - patches) / jobs + 1,
        "cpu_ms": cpu / jobs * 1e3,
    }


async def churn(site: Site, plane: ControlPlane, jobs: int, room: int) -> dict[str, float]:
    """Twice as many as fit, each for :data:`RUN_SECONDS`."""
    watched = Watched(site, "churn")
    began = time.time()
    await created(plane, jobs, RUN_SECONDS, "churn")
    await watched.reach(lambda: len(watched.released) >= jobs)
    await watched.reach(lambda: watched.held[-1][1] == 0)
    held, last = 0.0, (began, 0)
    for second, cores in watched.held:
        held += (second - last[0]) * last[1]
        last = (second, cores)
    pods = (await site.request("GET", "/api/v1/namespaces/default/pods"))["items"]
    mine = [pod for pod in pods if pod["metadata"]["name"].startswith("churn")]
    used = sum(ran(pod) for pod in mine)
    owners = [pod["metadata"]["ownerReferences"][0]["uid"] for pod in mine]
    starts = [
        stamp(p["status"]["startTime"]) - watched.released[u]
        for u, p in zip(owners, mine, strict=True)
    ]
    ends = [watched.freed[u] - ended(p) for u, p in zip(owners, mine, strict=True)]
    return {
        "to_start": statistics.mean(starts),
        "to_free": statistics.mean(ends),
        "ratio": used / held,
        "most": max(cores for _, cores in watched.held),
        "room": room,
        "seconds": time.time() - began,
    }


def ran(pod: dict[str, Any]) -> float:
    """Seconds between start and end of a pod of one core."""
    return ended(pod) - stamp(pod["status"]["startTime"])


def ended(pod: dict[str, Any]) -> float:
    """When a pod of one container ended."""
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return stamp(state["finishedAt"])


def stamp(text: str) -> float:
    """Seconds since 1970; the API server's stamps are whole."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


async def part(plane: ControlPlane, folder: Path, name: str, jobs: int) -> dict[str, float]:
    """One of both, on a control plane and a bus of its own."""
    folder.mkdir()
    async with EmbeddedServer(folder) as server:
        door = await JetStream.connect(server.url, history(), credentials=server.credentials)
        async with queued(plane, folder, door) as site:
            room = 2 * jobs if name == "burst" else jobs // 2
            await make_tree(site, room)
            if name == "burst":
                found = await burst(site, plane, jobs)
            else:
                found = await churn(site, plane, jobs, room)
        await door.close()
    return found


def measured(name: str, jobs: int) -> dict[str, float]:
    """One part, on a control plane of its own."""
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder, ControlPlane() as plane:
        plane.create_nodes(40, cpu="200", gpus=0)
        return uvloop.run(part(plane, Path(folder) / name, name, jobs))


def run(args: argparse.Namespace) -> Report:
    """All rounds, each on a control plane of its own."""
    first = [measured("burst", args.jobs) for _ in range(args.rounds)]
    second = [measured("churn", args.churn) for _ in range(args.rounds)]
    goals = [
        measure.verdict("releases/s of a burst", [r["rate"] for r in first], ">=", 40),
        measure.verdict(
            "API writes a Job, its create included", [r["writes"] for r in first], "<=", 3
        ),
        measure.verdict("churn: quota used / quota held", [r["ratio"] for r in second], ">=", 0.8),
        measure.verdict(
            "churn: cores held at most, over the room",
            [r["most"] - r["room"] for r in second],
            "<=",
            0,
        ),
    ]
    notes = [
        f"burst: wait p50 {r['p50']:.1f} s, p99 {r['p99']:.1f} s, own CPU {r['cpu_ms']:.1f} ms a Job"
        for r in first
    ]
    notes += [
        f"churn: {r['seconds']:.0f} s in all; from a release to the start of its pod {r['to_start']:.1f} s, from its end to"
        f" the quota's {r['to_free']:.1f} s"
        for r in second
    ]
    notes.append(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    if sys.argv[1:] == ["--load"]:
        load(json.load(sys.stdin))
        raise SystemExit(0)
    raise SystemExit(measure.main(run, "Queues on a real API server.", jobs=1_000, churn=1_200))

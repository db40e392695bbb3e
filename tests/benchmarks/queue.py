"""Queues as their users meet them: how fast what is created suspended is started, and how full a quota is kept.

    python -m tests.benchmarks.queue [--rounds 1] [--jobs 1000] [--churn 1200] [-o json]

The control plane of ``tests/cluster``, etcd without fsync, 40 simulated nodes of 200 CPU. ``bursar up`` runs in a process of its
own in mode ``enforce``, with its bus (sync always), sources, ledger, keeper, reactors, queues and webhooks, by the account and the
registration of an installation. A tree of 4 levels has 30 leaves. Another process creates Jobs from 16 clients, and a third one
watches Jobs.

- *burst*: 1,000 Jobs at once with quota for all. Releases a second, from the first create until the watch has shown the last Job
  unsuspended; the wait of each from the answer to its create until then.
- *churn*: 1,200 Jobs of 15 s with quota for half. Cores held at most and on average while Jobs wait, over the quota; seconds
  between start and end of the pods over the seconds that the quota was held for them.

The load of the machine is in all of it. Source: tests/benchmarks/README.md (Kueue there).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from tests.acceptance.admission_site import Site, quota
from tests.acceptance.queueing import PATH, QUOTAS, job
from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.cluster.api import Api, ApiError
from tests.cluster.plane import ControlPlane

LEAVES = 30
CLIENTS = 16
RUN_SECONDS = 15
LONGEST = 1_200.0
CPU = "limits.cpu"


def make_tree(site: Site, cpu: int) -> None:
    """Four levels, 30 leaves of the same size that can take ``cpu`` cores together; the leaves hold."""
    made = [quota("root", {CPU: str(cpu)})]
    for top in range(2):
        made.append(quota(f"top-{top}", {CPU: str(cpu // 2)}, "root"))
        made += [
            quota(f"middle-{top}-{middle}", {CPU: str(cpu // 6)}, f"top-{top}")
            for middle in range(3)
        ]
    for leaf in range(LEAVES):
        above = f"middle-{leaf % 2}-{leaf // 2 % 3}"
        queue = {"hold": True, "order": "BackFill", "maxHeadDelaySeconds": 60}
        made.append(quota(f"leaf-{leaf}", {CPU: str(cpu // LEAVES)}, above, queue=queue))
    for one in made:
        site.until(lambda one=one: _made(site, one))
    for leaf in range(LEAVES):
        site.until(lambda leaf=leaf: _holds(site, f"leaf-{leaf}"))


def _made(site: Site, one: dict[str, Any]) -> bool:
    """Whether a quota could be created: the one above it has to be seen first."""
    return _asked(site, QUOTAS, one) is not None


def _holds(site: Site, name: str) -> bool:
    """Whether a Job of this quota would wait in its queue."""
    made = _asked(site, PATH.format("default") + "?dryRun=All", job("probe", 1, name))
    return made is not None and bool(made["spec"].get("suspend"))


def _asked(site: Site, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """What was created; None where it was refused."""
    try:
        return site.plane.api.request("POST", path, body)
    except ApiError:
        return None


def load(order: dict[str, Any]) -> None:
    """Create the Jobs from :data:`CLIENTS` connections, and print when each was answered."""
    api = Api(order["url"], order["token"], order["ca"])
    answered: dict[str, float] = {}

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
            answered[name] = time.time()

    began = time.time()
    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(client, number) for number in range(CLIENTS)]:
            done.result()
    json.dump({"began": began, "answered": answered}, sys.stdout)


def observe(order: dict[str, Any]) -> None:
    """Watch Jobs until all run, or until all have ended; print when each was first seen to run, and to have ended."""
    api = Api(order["url"], order["token"], order["ca"])
    path, started, ended = PATH.format("default"), {}, {}
    version = api.request("GET", path)["metadata"]["resourceVersion"]
    print("watching", flush=True)
    for event in api.watch(path, version, seconds=int(LONGEST)):
        found, now = event["object"], time.time()
        name = found["metadata"]["name"]
        if not name.startswith(order["prefix"]):
            continue
        if not found["spec"].get("suspend"):
            started.setdefault(name, now)
        if found.get("status", {}).get("completionTime"):
            ended.setdefault(name, now)
        if len(ended if order["seconds"] is not None else started) == order["jobs"]:
            break
    json.dump({"started": started, "ended": ended}, sys.stdout)


def beside(role: str, order: dict[str, Any]) -> subprocess.Popen[str]:
    """A process of :func:`load` or :func:`observe`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.queue", role],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(order))
    process.stdin.close()
    process.stdin = None
    return process


def lived(plane: ControlPlane, jobs: int, seconds: int | None, prefix: str) -> dict[str, Any]:
    """The Jobs created and run, as the clients saw it."""
    order = {
        "url": plane.url, "token": plane.token, "ca": str(plane.ca_file),
        "jobs": jobs, "seconds": seconds, "prefix": prefix,
    }  # fmt: skip
    watch = beside("--observe", order)
    assert watch.stdout is not None and watch.stdout.readline() == "watching\n"
    clients = beside("--load", order)
    answered, _ = clients.communicate(timeout=LONGEST)
    seen, _ = watch.communicate(timeout=LONGEST)
    assert not clients.returncode and not watch.returncode, "the load failed"
    found = {**json.loads(answered), **json.loads(seen)}
    assert len(found["started"]) == jobs, "the watch ended before all were released"
    return found


class Spent:
    """CPU of all processes of a site, by program."""

    def __init__(self, site: Site) -> None:
        me = psutil.Process()
        self._processes = {one.pid: self._named(one) for one in me.children(recursive=True)}
        self._before = {pid: measure.cpu_seconds([pid]) for pid in self._processes}

    @staticmethod
    def _named(process: psutil.Process) -> str:
        return "bursar" if process.name() in ("bursar", "python", "python3") else process.name()

    def shown(self, jobs: int) -> str:
        """Milliseconds a Job."""
        found: dict[str, float] = {}
        for pid, name in self._processes.items():
            spent = measure.cpu_seconds([pid]) - self._before[pid]
            found[name] = found.get(name, 0.0) + spent
        parts = sorted(found.items(), key=lambda one: -one[1])
        shown = ", ".join(f"{name} {s / jobs * 1e3:.1f}" for name, s in parts if s > 0.1)
        return f"CPU ms a Job: {shown}; all {sum(found.values()) / jobs * 1e3:.1f}"


def burst(site: Site, jobs: int) -> dict[str, Any]:
    """Everything at once, with quota for all."""
    spent = Spent(site)
    seen = lived(site.plane, jobs, None, "burst")
    cpu = spent.shown(jobs)
    waits = sorted(seen["started"][name] - at for name, at in seen["answered"].items())
    return {
        "rate": jobs / (max(seen["started"].values()) - seen["began"]),
        "created": jobs / (max(seen["answered"].values()) - seen["began"]),
        "p50": statistics.median(waits),
        "p99": waits[len(waits) * 99 // 100],
        "cpu": cpu,
    }


def journal(site: Site) -> tuple[dict[str, float], dict[str, float]]:
    """By uid: when the ledger has each as released, and as given back, seconds."""

    def asked(query: str) -> list[dict[str, Any]]:
        done = site.ask("sql", "-o", "json", "--limit", "100000", "--timeout", "60", query)
        assert not done.returncode, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows

    released = asked("SELECT uid, MIN(time_us) AS t FROM v1_admissions WHERE reason = 'released' GROUP BY uid")  # fmt: skip
    freed: dict[str, float] = {}
    for row in asked("SELECT time_us, body FROM v1_events WHERE type = 'admission.released'"):
        for one in json.loads(row["body"])["releases"]:
            if not one.get("charge"):
                freed[one["uid"]] = row["time_us"] / 1e6
    return {row["uid"]: row["t"] / 1e6 for row in released}, freed


def churn(site: Site, jobs: int, room: int) -> dict[str, Any]:
    """Twice as many as fit, each for :data:`RUN_SECONDS`."""
    spent = Spent(site)
    seen = lived(site.plane, jobs, RUN_SECONDS, "churn")
    cpu = spent.shown(jobs)
    pods = site.plane.api.request("GET", "/api/v1/namespaces/default/pods", seconds=60)["items"]
    mine = {pod["metadata"]["ownerReferences"][0]["uid"]: pod for pod in pods}
    found: dict[str, dict[str, float]] = {}

    def is_read() -> bool:
        found["released"], found["freed"] = journal(site)
        return all(mine.keys() <= one.keys() for one in found.values())

    site.until(is_read)
    released, freed = ({uid: found[one][uid] for uid in mine} for one in ("released", "freed"))
    marks = sorted([(at, 1) for at in released.values()] + [(at, -1) for at in freed.values()])
    held, most, area, last = 0, 0, 0.0, marks[0][0]
    # While Jobs wait.
    end = max(released.values())
    for at, step in marks:
        area += held * (min(at, end) - last) if last < end else 0.0
        held, last = held + step, at
        most = max(most, held)
    used = sum(ended(pod) - started(pod) for pod in mine.values())
    return {
        "to_start": statistics.mean(started(pod) - released[uid] for uid, pod in mine.items()),
        "to_free": statistics.mean(freed[uid] - ended(pod) for uid, pod in mine.items()),
        "ratio": used / sum(freed[uid] - released[uid] for uid in mine),
        "most": most / room,
        "mean": area / (end - marks[0][0]) / room,
        "rate": jobs / (max(seen["started"].values()) - seen["began"]),
        "seconds": max(seen["ended"].values()) - seen["began"],
        "cpu": cpu,
    }


def started(pod: dict[str, Any]) -> float:
    """When the kubelet began a pod."""
    return stamp(pod["status"]["startTime"])


def ended(pod: dict[str, Any]) -> float:
    """When a pod of one container ended."""
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return stamp(state["finishedAt"])


def stamp(text: str) -> float:
    """Seconds since 1970; stamps of the cluster are whole."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@contextmanager
def sited(folder: Path) -> Iterator[Site]:
    """A control plane, and `bursar up` that answers its reviews."""
    with ControlPlane() as plane:
        plane.create_nodes(40, cpu="200", gpus=0)
        site = Site(plane, folder)
        # The program of this checkout.
        site.environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        up = site.start("up")
        try:
            site.until(site.registered)
            yield site
        finally:
            up.terminate()
            up.wait(120)


def measured(name: str, jobs: int) -> dict[str, Any]:
    """One part, on a control plane of its own."""
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder, sited(Path(folder)) as site:
        # Leaves of whole cores.
        room = 2 * jobs if name == "burst" else jobs // 2 // LEAVES * LEAVES
        make_tree(site, room)
        return burst(site, jobs) if name == "burst" else churn(site, jobs, room)


def run(args: argparse.Namespace) -> Report:
    """All rounds, each on a control plane of its own."""
    first = [measured("burst", args.jobs) for _ in range(args.rounds)]
    second = [measured("churn", args.churn) for _ in range(args.rounds)]
    goals = [
        measure.verdict("releases/s of a burst", [r["rate"] for r in first], ">=", 45),
        measure.verdict("churn: quota used / quota held", [r["ratio"] for r in second], ">=", 0.9),
        measure.verdict("churn: most held / quota", [r["most"] for r in second], ">=", 0.97),
        measure.verdict("the same, not above the quota", [r["most"] for r in second], "<=", 1),
    ]
    notes = [
        f"burst: created at {r['created']:.1f}/s; wait p50 {r['p50']:.1f} s, p99 {r['p99']:.1f} s; {r['cpu']}"
        for r in first
    ]
    notes += [
        f"churn: {r['rate']:.1f} releases/s, {r['mean']:.3f} of the quota held until the last release, {r['seconds']:.0f} s in all;"
        f" from a release to the start of its pod {r['to_start']:.1f} s, from its end to the quota's {r['to_free']:.1f} s;"
        f" {r['cpu']}"
        for r in second
    ]
    notes.append(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    roles = {"--load": load, "--observe": observe}
    if len(sys.argv) == 2 and sys.argv[1] in roles:
        roles[sys.argv[1]](json.load(sys.stdin))
        raise SystemExit(0)
    raise SystemExit(measure.main(run, "Queues as their users meet them.", jobs=1_000, churn=1_200))

"""What the webhook adds to a calm create of a Job on a real API server.

    python -m tests.benchmarks.created [--rounds 5] [--jobs 150] [-o json]

One client on one connection creates a Job in a namespace that is asked about, one in a namespace that is exempt, one in
a namespace that is asked about at `/empty` of the same server, and so on: all meet the same moment. Each of the first is
charged, and answered when its decision is durable on a bus with sync always. Needs the control plane of
``tests/cluster``, without controllers and scheduler.

Source: tests/benchmarks/README.md (Kueue's webhooks: 2.3 to 3.3 ms).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop

from bus.embedded import EmbeddedServer
from bus.jetstream import JetStream
from bus.kube.kinds import GOVERNED
from bus.streams import history
from reactors.webhook.registration import IGNORE_LABEL, PATH, RegistrationSettings, configuration
from tests.benchmarks import admission, measure
from tests.benchmarks.admission import GROUPED, LEAVES, QUOTA
from tests.benchmarks.measure import Report
from tests.cluster.api import APPLY, eventually
from tests.cluster.plane import ControlPlane

ASKED, EXEMPT, EMPTY = "asked", "exempt", "empty"


class Client:
    """One connection that is kept."""

    def __init__(self, plane: ControlPlane) -> None:
        self._connection: http.client.HTTPConnection = plane.api._connect(30)
        self._headers = plane.api._headers("application/json")
        self._made = 0

    def create(self, namespace: str) -> float:
        """Milliseconds of one create."""
        self._made += 1
        body = json.dumps(job(self._made))
        began = time.perf_counter()
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._connection.request("POST", path, body, self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        took = time.perf_counter() - began
        if answer.status != http.client.CREATED:
            raise RuntimeError(said[:500])
        return took * 1000


def job(number: int) -> dict[str, Any]:
    """A Job of one pod, another name for every number."""
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {
        "name": "main",
        "image": "job",
        "resources": {"limits": amounts, "requests": amounts},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    metadata = {"name": f"job-{number}", "labels": {QUOTA: f"leaf-{number % LEAVES}"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template},
    }


def register(plane: ControlPlane, url: str, ca_file: str) -> None:
    """Have the API server ask, and wait until it does."""
    settings = RegistrationSettings("bursar", url=url, failure_policy="Fail")
    body = configuration(settings, GOVERNED, Path(ca_file).read_bytes())
    exempt = {IGNORE_LABEL: "ignore"}
    for name, labels in ((ASKED, {}), (EXEMPT, exempt), (EMPTY, exempt | {EMPTY: "yes"})):
        item = {"metadata": {"name": name, "labels": labels}}
        plane.api.request("POST", "/api/v1/namespaces", item)
    empty = json.loads(json.dumps(body))
    empty["metadata"]["name"] = EMPTY
    for one in empty["webhooks"]:
        one["clientConfig"]["url"] = f"{url}/empty"
        one["namespaceSelector"] = {"matchLabels": {EMPTY: "yes"}}
    for path, item in ((PATH, body), (f"{PATH.rpartition('/')[0]}/{EMPTY}", empty)):
        plane.api.request(
            "PATCH", f"{path}?fieldManager=bursar&force=true", item, content_type=APPLY
        )
    eventually(lambda: is_asked(plane))


def is_asked(plane: ControlPlane) -> bool:
    """Whether a Job that names no quota there is gets refused in the one namespace and not in the other."""

    def refused(namespace: str) -> bool:
        item = job(0)
        item["metadata"]["labels"][QUOTA] = "none"
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All"
        try:
            plane.api.request("POST", path, item)
        except Exception as error:
            return "quota-unknown" in str(error)
        return False

    return refused(ASKED) and not refused(EXEMPT)


def one_round(client: Client, jobs: int) -> dict[str, list[float]]:
    """Milliseconds of each create, by namespace."""
    taken: dict[str, list[float]] = {ASKED: [], EXEMPT: [], EMPTY: []}
    for number in range(jobs):
        for namespace in list(taken)[:: 1 if number % 2 else -1]:
            taken[namespace].append(client.create(namespace))
            # Calm: the server has done with one when the next one comes.
            time.sleep(0.005)
    return taken


async def measured(args: argparse.Namespace, plane: ControlPlane) -> Report:
    """The report over all rounds."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(EmbeddedServer(folder))
        door = await JetStream.connect(server.url, history(), credentials=server.credentials)
        stack.push_async_callback(door.close)
        await admission.declare(door, GROUPED)
        webhook = await stack.enter_async_context(admission.webhook(server.url, folder, GROUPED))
        target = webhook.target("admit")
        register(plane, target.url.removesuffix("/admit"), target.ca_file)
        client = Client(plane)
        one_round(client, args.jobs // 3)
        found = [one_round(client, args.jobs) for _ in range(args.rounds)]
    return judged(found)


def judged(found: list[dict[str, list[float]]]) -> Report:
    """The goal, and the figures it rests on."""

    def middle(namespace: str, share: float = 0.5) -> list[float]:
        return [sorted(one[namespace])[int(share * len(one[namespace]))] for one in found]

    added = [a - b for a, b in zip(middle(ASKED), middle(EXEMPT), strict=True)]
    notes = [
        f"{name}: p50 {statistics.median(middle(name)):.2f} ms, p99 {statistics.median(middle(name, 0.99)):.2f} ms"
        for name in (ASKED, EMPTY, EXEMPT)
    ]
    goal = measure.verdict("calm create of a Job: p50 with - p50 without, ms", added, "<=", 3)
    notes.append(f"load average at the end {os.getloadavg()[0]:.1f}")
    return {"rounds": len(found), "per_event": {}, "goals": [goal], "notes": notes}


def run(args: argparse.Namespace) -> Report:
    """The report."""
    with ControlPlane(controllers=False, scheduler=False, simulator=False) as plane:
        return uvloop.run(measured(args, plane))


if __name__ == "__main__":
    raise SystemExit(measure.main(run, __doc__ or "", jobs=150))

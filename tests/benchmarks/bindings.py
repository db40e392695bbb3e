"""Bindings on a real API server: how many pods a second get their node, beside a bare loop of the same requests.

    python -m tests.benchmarks.bindings [--rounds 3] [--pods 1000] [-o json]

etcd without fsync and the API server of ``tests/cluster``, nothing else. Each variant binds pods of its own by one write each:

- *bare*: eight sockets in one loop, the request's bytes made before, of the answer only status and length are read.
- *binder*: what acts in ``bursar up``: outcomes, crash points, the look at what is outstanding, eight connections.
- *library*: the same requests by the client library's session.

The API server does most of the work, on the same machine, so wall time is the ceiling of any scheduler here and CPU is ours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop

from bus.kube.client import Access, KubeCluster, connect
from bus.kube.client.connections import MOST
from projections.cluster import ClusterState, Pod
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.effectors.binder import Binder
from reactors.scheduling.framework.bind import Placement
from reactors.scheduling.framework.bind_cycle import Known
from reactors.scheduling.framework.bind_plugins import BindPlugins
from reactors.scheduling.plugins.catalogue import default_profile
from tests.benchmarks import measure
from tests.benchmarks.measure import Cost, Goal, Report, Stopwatch
from tests.cluster.plane import ControlPlane

CLIENTS = 16
PODS = "/api/v1/namespaces/default/pods"


def made(plane: ControlPlane, prefix: str, pods: int) -> list[Placement]:
    """New pods that wait, and where each shall go."""

    def client(number: int) -> list[Placement]:
        api, found = plane.api, []
        for one in range(number, pods, CLIENTS):
            container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
            spec = {"schedulerName": "bursar", "containers": [container]}
            body = {"metadata": {"name": f"{prefix}-{one}"}, "spec": spec}
            pod = api.request("POST", PODS, body)["metadata"]
            found.append(
                Placement("default", pod["name"], pod["uid"], f"node-{one % 100}", f"{one:032x}")
            )
        return found

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [one for found in pool.map(client, range(CLIENTS)) for one in found]


class Wanted:
    """All placements are outstanding until they are bound."""

    def __init__(self, placements: Sequence[Placement]) -> None:
        self._left = {one.uid: one for one in placements}
        self.done = asyncio.Event()
        self._plugins = BindPlugins(one.plugin for one in default_profile("bursar").plugins)
        pod = Pod(
            "p", "default", "p", "1", 0, "Pending", "", False, 0, 0, "", None, {}, {}, {}, (0, 0)
        )
        self._known = Known(pod, Columns(ClusterState()), dict)

    @property
    def position(self) -> int:
        return len(self._left)

    async def moved(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def decisions(self) -> list[tuple[str, str]]:
        return [(one.uid, one.decision) for one in self._left.values()]

    def overtaken(self, placement: Placement) -> str:
        return ""

    def binding(self, placement: Placement) -> tuple[BindPlugins, Known]:
        return self._plugins, self._known

    def placement(self, uid: str) -> Placement | None:
        return self._left.get(uid)

    def told(self, placement: Placement) -> None:
        del self._left[placement.uid]
        if not self._left:
            self.done.set()


async def by_binder(cluster: KubeCluster, placements: Sequence[Placement]) -> None:
    """What `bursar up` does."""

    async def settle(found: Any) -> None:
        raise AssertionError(found)

    wanted = Wanted(placements)
    task = asyncio.create_task(Binder(cluster, wanted, settle, wanted.told).run())
    await wanted.done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def body_of(one: Placement) -> dict[str, Any]:
    """The Binding."""
    metadata = {"name": one.name, "namespace": one.namespace, "uid": one.uid}
    return {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": metadata | {"annotations": {"bursar.io/decision": one.decision}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": one.node},
    }  # fmt: skip


async def by_library(cluster: KubeCluster, placements: Sequence[Placement]) -> None:
    """The session of the client library, as other requests go."""
    left = list(placements)

    async def work() -> None:
        while left:
            one = left.pop()
            await cluster.create(f"{PODS}/{one.name}/binding", body_of(one))

    await asyncio.gather(*(work() for _ in range(MOST)))


async def bare(plane: ControlPlane, placements: Sequence[Placement]) -> None:
    """The least that a client can do."""
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    host, _, port = plane.url.removeprefix("https://").partition(":")
    requests = []
    for one in placements:
        body = json.dumps(body_of(one)).encode()
        head = (
            f"POST {PODS}/{one.name}/binding HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {plane.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        requests.append(head.encode() + body)

    async def work() -> None:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        while requests:
            writer.write(requests.pop())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 201 "):
                raise RuntimeError(head)
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
        writer.transport.abort()

    await asyncio.gather(*(work() for _ in range(MOST)))


def run(args: argparse.Namespace) -> Report:
    """All rounds on one control plane."""
    with ControlPlane(controllers=False, scheduler=False, simulator=False) as plane:

        def variant(name: str) -> Any:
            def measured(number: int) -> Cost:
                placements = made(plane, f"{name}-{number}", args.pods)

                async def main() -> None:
                    cluster = await connect(Access(str(plane.kubeconfig)))
                    if name == "bare":
                        await bare(plane, placements)
                    else:
                        await (by_binder if name == "binder" else by_library)(cluster, placements)
                    await cluster.close()

                with Stopwatch() as clock:
                    uvloop.run(main())
                return clock.cost(args.pods)

            return measured

        names = ("bare", "binder", "library")
        results = measure.interleaved({name: variant(name) for name in names}, args.rounds)
    rates = [f"{1e6 / r['binder'].wall:,.0f} of {1e6 / r['bare'].wall:,.0f}" for r in results]
    goals = [
        Goal("binds/s: bare loop over binder (wall)", "wall", "binder", "bare", "<=", 1.25),
        Goal("own CPU us a bind", "cpu", "binder", None, "<=", 600.0),
    ]
    notes = [
        f"binds/s of the bare loop's, by round: {', '.join(rates)}; {os.cpu_count()} cores for all"
    ]
    return measure.judged(results, goals, notes)


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "Bindings on a real API server.", pods=1_000))

"""Bursar's scheduler beside kube-scheduler of the same release, on a real API server: pods a second, CPU, time to a node.

    python -m tests.benchmarks.schedulers [--rounds 1] [--nodes 200] [--pods 500] [--rate 100] [--seconds 5]
        [--gang 0] [--share 0] [--quota 0] [--org 0] [-o json]

The published sizes are ``--nodes 1000 --pods 3000 --seconds 30``. etcd without fsync, the API server, nothing that simulates
nodes; each variant on a control plane of its own. Bursar is ``bursar up`` with its embedded bus (sync always) and its ledger, as
anyone starts it; kube-scheduler with its defaults, but 500 requests a second allowed.

- *burst*: pods of five sizes from 16 clients in another process, as fast as the API server takes them. Pods a second from the
  first request to the last binding, and CPU of API server, etcd and scheduler together, the creating of the pods included.
  With ``--gang 8`` they are gangs of eight of native PodGroups, which are there before, and whose feature gates both servers
  have on: none of a gang may be bound alone. With ``--share 1`` each asks for a part of a GPU, in 300 sizes, of nodes with eight
  cards, and Bursar's profile has DeviceShare: it chooses the card, too. kube-scheduler counts the parts as numbers of a node.
  With ``--quota 10`` each pod is of one of ten quotas, which Bursar keeps and whose plugin each pod has to pass, each the root
  of a tree, or with ``--org 1`` all below one; kube-scheduler knows nothing of them.
- *steady*: so many pods a second, by themselves. From the answer to the create until a watch shows the pod's node, in this process.

All of it shares one machine, so only the ratios of one run count.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.cluster.api import MERGE, Api
from tests.cluster.plane import ControlPlane

CLIENTS = 16
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
#: With these, release 1.36 has native gangs.
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
#: What a node with eight cards offers, and what its pods ask for of one.
CARDS = {"koordinator.sh/gpu-core": "800", "koordinator.sh/gpu-memory-ratio": "800"}
SHARES = [(core, ratio) for core in range(5, 65, 2) for ratio in range(5, 55, 5)]
CRDS = Path(__file__).parents[2] / "deploy" / "manifests" / "crds" / "bursar.io.yaml"
QUOTAS = "/apis/bursar.io/v1alpha1/bizgroupresourcequotas"
LABEL = "biz.group.resource.quota"
SIZES = (("100m", "128Mi"), ("250m", "256Mi"), ("500m", "512Mi"), ("1", "1Gi"), ("2", "2Gi"))
LONGEST = 200.0
#: Variant to the schedulerName of its pods.
NAMES = {"bursar": "bursar", "kube-scheduler": "default-scheduler"}


def pod(
    name: str,
    scheduler: str,
    dice: random.Random,
    gang: str = "",
    *,
    is_share: bool = False,
    quotas: int = 0,
) -> dict[str, Any]:
    """A pod of one of the sizes, of a gang where one is named, and of one of the quotas; a share also asks for a part of a card."""
    labels = {LABEL: f"team-{dice.randrange(quotas)}"} if quotas else {}
    cpu, memory = dice.choice(SIZES)
    part = dict(zip(CARDS, map(str, dice.choice(SHARES)), strict=True)) if is_share else {}
    requests = {"cpu": cpu, "memory": memory, **part}
    container = {"name": "main", "image": "x", "resources": {"requests": requests, "limits": part}}
    group = {"schedulingGroup": {"podGroupName": gang}} if gang else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulerName": scheduler, "containers": [container], **group},
    }


def post(api: Api, connection: http.client.HTTPConnection, body: dict[str, Any]) -> None:
    """Create a pod by a connection that stays open: one more TLS handshake costs as much as a pod."""
    connection.request("POST", PODS, json.dumps(body), api._headers("application/json"))
    answer = connection.getresponse()
    said = answer.read()
    if answer.status != http.client.CREATED:
        raise RuntimeError(said[:300])


def load(order: dict[str, Any]) -> None:
    """Create pods from :data:`CLIENTS` connections; in a process of its own."""
    api = Api(order["url"], order["token"], order["ca"])

    def client(number: int) -> None:
        dice, connection = random.Random(number), api._connect(60)
        for one in range(number, order["pods"], CLIENTS):
            gang = f"gang-{one // order['gang']}" if order["gang"] else ""
            post(
                api, connection,
                pod(
                    f"burst-{one}", order["scheduler"], dice, gang,
                    is_share=order["share"], quotas=order["quota"],
                ),
            )  # fmt: skip

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))


def family(pid: int) -> list[int]:
    """A process and all below it."""
    parent = psutil.Process(pid)
    return [parent.pid, *(one.pid for one in parent.children(recursive=True))]


@contextmanager
def scheduling(
    plane: ControlPlane, variant: str, folder: Path, settings: dict[str, str]
) -> Iterator[int]:
    """The scheduler's process, when it binds."""
    process = None
    pid = 0
    if variant == "bursar":
        process = subprocess.Popen(
            [sys.executable, "-c", "from deploy.cli import main; main()", "up", "--data", str(folder)],
            stdout=subprocess.DEVNULL,
            env=os.environ | {
                "KUBECONFIG": str(plane.kubeconfig), "BURSAR_SCHEDULING__MODE": "on",
                "BURSAR_CULLING__MODE": "off", "BURSAR_EVICTIONS__MODE": "off",
                **settings,
            },
        )  # fmt: skip
        pid = process.pid
    else:
        pid = plane._processes["kube-scheduler"].pid
    try:
        plane.api.request("POST", PODS, pod("probe", NAMES[variant], random.Random(1)))
        probed(plane)
        yield pid
    finally:
        if process is not None:
            process.terminate()
            process.wait(30)


def probed(plane: ControlPlane) -> None:
    """Wait until the one pod has its node."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        if plane.api.request("GET", f"{PODS}/probe")["spec"].get("nodeName"):
            return
        time.sleep(0.05)
    raise TimeoutError("the probe was not bound")


def burst(
    plane: ControlPlane,
    variant: str,
    args: argparse.Namespace,
    pids: list[int],
    bound: dict[str, float],
) -> dict[str, float]:
    """All at once. ``bound`` is what :func:`watch` notes."""
    pods = args.pods
    order = {
        "url": plane.url, "token": plane.token, "ca": str(plane.ca_file), "pods": pods,
        "scheduler": NAMES[variant], "gang": args.gang,
        "share": bool(args.share), "quota": args.quota,
    }  # fmt: skip
    for number in range(pods // args.gang if args.gang else 0):
        policy = {"schedulingPolicy": {"gang": {"minCount": args.gang}}}
        plane.api.request("POST", GROUPS, {"metadata": {"name": f"gang-{number}"}, "spec": policy})
    command = [sys.executable, "-m", "tests.benchmarks.schedulers", "--load"]
    cpu, began = measure.cpu_seconds(pids), time.monotonic()
    subprocess.run(command, input=json.dumps(order).encode(), check=True)
    created = time.monotonic() - began
    while len(times := _burst(bound)) < pods and time.monotonic() < began + LONGEST:
        time.sleep(0.02)
    took = max(times) - began
    assert len(times) == pods, f"{len(times)} of {pods} pods were bound"
    cpu = measure.cpu_seconds(pids) - cpu
    return {"rate": pods / took, "created": pods / created, "cpu_ms": cpu / pods * 1e3}


def _burst(bound: dict[str, float]) -> list[float]:
    return [at for name, at in list(bound.items()) if name.startswith("burst-")]


@contextmanager
def watch(plane: ControlPlane, bound: dict[str, float]) -> Iterator[None]:
    """While the body runs, note when each pod was first shown with a node.

    Lists of the pods that wait, read from etcd, would cost the API server more than binding.
    """

    def note(found: dict[str, Any]) -> None:
        if found["spec"].get("nodeName"):
            bound.setdefault(found["metadata"]["name"], time.monotonic())

    def read() -> None:
        # The API server ends a watch that it finds slow, and all of them at its own end.
        while not is_over.is_set():
            with suppress(OSError, http.client.HTTPException):
                found = plane.api.request("GET", PODS)
                for one in found["items"]:
                    note(one)
                version = found["metadata"]["resourceVersion"]
                for line in plane.api.lines(PODS, version, seconds=int(3 * LONGEST)):
                    if b'"nodeName":"' in line:
                        note(json.loads(line)["object"])

    is_over = threading.Event()
    threading.Thread(target=read, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def steady(
    plane: ControlPlane, variant: str, args: argparse.Namespace, bound: dict[str, float]
) -> list[float]:
    """From created to bound, in milliseconds, sorted. ``bound`` is what :func:`watch` notes."""
    dice = random.Random(7)
    created: dict[str, float] = {}
    began = time.monotonic()

    def client(first: int) -> None:
        connection = plane.api._connect(60)
        for number in range(first, args.rate * args.seconds, CLIENTS):
            time.sleep(max(began + number / args.rate - time.monotonic(), 0))
            name = f"steady-{number}"
            body = pod(name, NAMES[variant], dice, is_share=bool(args.share), quotas=args.quota)
            post(plane.api, connection, body)
            created[name] = time.monotonic()

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    end = time.monotonic() + LONGEST
    while created.keys() - bound.keys() and time.monotonic() < end:
        time.sleep(0.05)
    return sorted(max(bound[name] - at, 0.0) * 1e3 for name, at in created.items())


def keep(plane: ControlPlane, quotas: int, *, is_tree: bool = False) -> None:
    """Make quotas that hold all pods, each by itself or in one tree."""
    plane.kubectl("apply", "--server-side", "-f", str(CRDS))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
    names = [*["org"] * is_tree, *(f"team-{number}" for number in range(quotas))]
    for name in names:
        parent = {"parentBizGroup": "org"} if is_tree and name != "org" else {}
        spec = {**parent, "hard": {"requests.cpu": "1M" if name == "org" else "100k"}}
        body = {
            "apiVersion": "bursar.io/v1alpha1", "kind": "BizGroupResourceQuota",
            "metadata": {"name": name}, "spec": spec,
        }  # fmt: skip
        plane.api.request("POST", QUOTAS, body)


def measured(variant: str, args: argparse.Namespace) -> dict[str, float]:
    """One variant on a control plane of its own."""
    is_theirs = variant == "kube-scheduler"
    gates: dict[str, Any] = {}
    if args.gang:
        gates = {"apiserver_flags": (GATES, SERVED), "scheduler_flags": (GATES,)}
    with (
        tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder,
        ControlPlane(controllers=False, scheduler=is_theirs, simulator=False, **gates) as plane,
    ):
        for name in plane.create_nodes(args.nodes, gpus=0, cpu="32", memory="128Gi"):
            # The controllers would take them away.
            patch = {"spec": {"taints": None}}
            plane.api.request("PATCH", f"/api/v1/nodes/{name}", patch, content_type=MERGE)
            if args.share:
                offer = {"status": {"capacity": CARDS, "allocatable": CARDS}}
                status = f"/api/v1/nodes/{name}/status"
                plane.api.request("PATCH", status, offer, content_type=MERGE)
        weights = {"DeviceShare": 5} if args.share else {}
        if args.quota:
            weights["Quota"] = 1
            keep(plane, args.quota, is_tree=bool(args.org))
        profile = (
            {"BURSAR_SCHEDULING__POLICY__PROFILES": json.dumps([{"weights": weights}])}
            if weights
            else {}
        )
        with scheduling(plane, variant, Path(folder) / "data", profile) as pid:
            servers = [plane._processes[name].pid for name in ("etcd", "kube-apiserver")]
            bound: dict[str, float] = {}
            with watch(plane, bound):
                found = burst(plane, variant, args, [*servers, *family(pid)], bound)
                waits = steady(plane, variant, args, bound)
    return found | {"p50": waits[len(waits) // 2], "p99": waits[len(waits) * 99 // 100]}


def run(args: argparse.Namespace) -> Report:
    """All rounds."""
    rounds = [{name: measured(name, args) for name in NAMES} for _ in range(args.rounds)]
    ours = [one["bursar"] for one in rounds]
    goals = [
        measure.verdict(
            "pods/s of a burst: ours over kube-scheduler's",
            [one["bursar"]["rate"] / one["kube-scheduler"]["rate"] for one in rounds], ">=", 2,
        ),
        measure.verdict("CPU ms of all for a pod, its create included", [one["cpu_ms"] for one in ours], "<=", 3),
        measure.verdict("p99 ms from created to bound, steady", [one["p99"] for one in ours], "<=", 150),
    ]  # fmt: skip
    notes = [
        f"{name}: {one['rate']:.0f} pods/s (created at {one['created']:.0f}/s), {one['cpu_ms']:.1f} ms of CPU a pod, "
        f"p50 {one['p50']:.0f} ms, p99 {one['p99']:.0f} ms at {args.rate}/s"
        for found in rounds
        for name, one in found.items()
    ]
    sort = f" in gangs of {args.gang}" if args.gang else ""
    sort += " with a part of a card each" if args.share else ""
    sort += f" of {args.quota} quotas" if args.quota else ""
    sort += " in one tree" if args.org else ""
    notes.append(
        f"{args.nodes} nodes, {args.pods} pods{sort}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    if sys.argv[1:] == ["--load"]:
        load(json.load(sys.stdin))
        raise SystemExit(0)
    options = {
        "nodes": 200,
        "pods": 500,
        "rate": 100,
        "seconds": 5,
        "gang": 0,
        "share": 0,
        "quota": 0,
        "org": 0,
    }
    raise SystemExit(measure.main(run, "Schedulers on a real API server.", **options))

"""Training jobs that Bursar runs: one burst of jobs on a real API server, from their creation until every pod runs.

    python -m tests.benchmarks.jobs [--rounds 1] [--jobs 500] [--pods 8] [--namespaces 10] [-o json]

etcd without fsync, an API server and simulated kubelets; the template names the node, so that no scheduler is measured.
`bursar up` runs as users start it. The jobs are created by sixteen clients at once; the time begins with the first of them.
They are spread over namespaces, as those of teams are: kube-controller-manager compares each pod with every service of its
namespace, which with all 4,000 in one costs it more than everything that Bursar does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.cluster.plane import ControlPlane

CLIENTS = 16
PODS = "/api/v1/pods"
CRDS = Path(__file__).parents[2] / "deploy" / "manifests" / "training" / "crds.yaml"
#: All pods run so long after the first job was created, at most.
GOAL_SECONDS = 60.0
#: After this nobody waits any longer.
LONGEST_SECONDS = 240.0


def job(name: str, pods: int) -> dict[str, Any]:
    """A TFJob."""
    spec = {"nodeName": "node-0", "containers": [{"name": "tensorflow", "image": "x"}]}
    worker = {"replicas": pods, "template": {"spec": spec}}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name},
        "spec": {"runPolicy": {"managedBy": "bursar.io/jobs"}, "tfReplicaSpecs": {"Worker": worker}},
    }  # fmt: skip


@contextmanager
def up(plane: ControlPlane, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`bursar up` that follows the plane."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    given = {"KUBECONFIG": str(plane.kubeconfig), "HOME": str(folder), "BURSAR_JOBS__MODE": "on"}
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("bursar"), "up", "--data", folder / "data"],
            env=clean | given, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        while b"following the cluster" not in (folder / "up.log").read_bytes():
            time.sleep(0.2)
        time.sleep(5.0)
        yield process
    finally:
        process.terminate()
        process.wait()


def counted(plane: ControlPlane) -> tuple[int, int]:
    """How many pods there are, and how many of them run. To list all again and again would cost the server more than the jobs."""
    page = plane.api.request("GET", f"{PODS}?limit=1")
    waits = plane.api.request(
        "GET", f"{PODS}?fieldSelector=status.phase%21%3DRunning&resourceVersion=0"
    )
    there = len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
    return there, there - len(waits["items"])


def burst(plane: ControlPlane, folder: Path, args: argparse.Namespace) -> tuple[float, float]:
    """Seconds until all pods of all jobs run, and seconds of CPU of `bursar up` and its bus."""
    jobs, pods = args.jobs, args.pods
    namespaces = [f"team-{number}" for number in range(args.namespaces)]
    for name in namespaces:
        plane.kubectl("create", "namespace", name)
    with up(plane, folder) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        pids = [process.pid, *map(int, children)]
        before, began = measure.cpu_seconds(pids), time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            asked = [
                pool.submit(
                    plane.api.request,
                    "POST",
                    f"/apis/kubeflow.org/v1/namespaces/{namespaces[number % len(namespaces)]}/tfjobs",
                    job(f"job-{number}", pods),
                )
                for number in range(jobs)
            ]
            for one in asked:
                one.result()
        print(f"created in {time.perf_counter() - began:.1f} s", file=sys.stderr)
        while (found := counted(plane)) != (jobs * pods, jobs * pods):
            seconds = time.perf_counter() - began
            print(f"{seconds:.0f} s: {found[0]} pods, {found[1]} run", file=sys.stderr)
            if seconds > LONGEST_SECONDS:
                raise SystemExit(f"only {found[1]} pods run after {seconds:.0f} s")
            time.sleep(2.0)
        return time.perf_counter() - began, measure.cpu_seconds(pids) - before


def run(args: argparse.Namespace) -> Report:
    """All rounds, each in a plane of its own."""
    found = []
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name, ControlPlane() as plane:
            plane.kubectl("apply", "--server-side", "-f", str(CRDS))
            plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
            plane.create_nodes(1, cpu="100000", memory="100000Gi")
            found.append(burst(plane, Path(name), args))
    title = f"from {args.jobs} jobs of {args.pods} pods to all running, s"
    verdict = measure.verdict(title, [seconds for seconds, _ in found], "<=", GOAL_SECONDS)
    cpu = sorted(used / args.jobs * 1000 for _, used in found)[len(found) // 2]
    notes = [f"{cpu:.1f} ms of CPU a job, of bursar up and its bus"]
    return {"rounds": args.rounds, "per_event": {}, "goals": [verdict], "notes": notes}


if __name__ == "__main__":
    title = "A burst of training jobs that Bursar runs."
    raise SystemExit(measure.main(run, title, jobs=500, pods=8, namespaces=10))

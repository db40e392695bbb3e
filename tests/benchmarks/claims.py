"""The first sync of a cluster whose GPUs are given out by claim, at a real API server.

    python -m tests.benchmarks.claims [--pods 15000] [--nodes 2000] [--rounds 5] [--apart 1] [-o json]

Each pod has a claim of its own: four of five were made for it, the fifth is named. Each node has a slice of eight devices, every
fourth node eight partitions of two cards. The objects are written into etcd below the API server, which reads JSON there
as it reads its own: 34,000 writes through it would take minutes, and what is measured begins with its lists.

As in :mod:`tests.benchmarks.live`: from the first request until the last object is in a committed transaction, reflectors,
bus and ledger in one process; with ``--apart`` the ledger in one of its own,
as ``bursar ledger`` stands beside ``bursar watch``. A limit, not a ratio, so the load of the machine is in it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bus.clock import format_stamp
from bus.sources.catalogue import (
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from tests.benchmarks import ledgers, measure, synthetic, traffic
from tests.benchmarks.live import BUILT_IN, first_sync
from tests.benchmarks.measure import Report
from tests.cluster.plane import ControlPlane

DRIVER = "gpu.nvidia.com"
API = "resource.k8s.io/v1"
SOURCES = (
    *BUILT_IN, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, DEVICE_CLASSES,
)  # fmt: skip
#: Of each slice.
DEVICES = 8
#: Every fifth claim is named by its pod, every fourth node has partitions.
NAMED, PARTED = 5, 4

Stored = tuple[str, dict[str, Any]]


def objects(pods: int, nodes: int) -> Iterator[Stored]:
    """(key in etcd, object) of all: namespaces, nodes and slices first, then each pod and its claim."""
    for number in range(synthetic.NAMESPACES):
        name = f"team-{number % 10}-space-{number}"
        yield f"namespaces/{name}", _made("v1", "Namespace", name, 10**6 + number)
    for number in range(nodes):
        yield f"minions/node-{number:03d}", _made("v1", "Node", f"node-{number:03d}", 2 * 10**6 + number)  # fmt: skip
        yield f"resourceslices/slice-{number}", _slice(number)
    seen = synthetic.pods(10 * pods + 10, live=pods)
    born = (one for one in seen if one.life.stage == synthetic.CREATED)
    for number, (one, _) in enumerate(zip(born, range(pods), strict=False)):
        pod, claim = _pair(one, number)
        space = one.life.job.namespace
        yield f"resourceclaims/{space}/{claim['metadata']['name']}", claim
        yield f"pods/{space}/{one.life.name}", pod


def count(pods: int, nodes: int) -> int:
    """How many :func:`objects` are."""
    return synthetic.NAMESPACES + 2 * nodes + 2 * pods


def _made(api: str, kind: str, name: str, number: int, **more: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "uid": f"{number:08x}-0000-4000-a000-{number:012x}",
        "creationTimestamp": format_stamp(synthetic.BEGIN_US),
        **more.pop("metadata", {}),
    }
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def _slice(number: int) -> dict[str, Any]:
    """Whole cards, or partitions of two."""
    node = f"node-{number:03d}"
    attributes = {"productName": {"string": "NVIDIA-H100-80GB-HBM3"}}
    devices: list[dict[str, Any]] = [
        {"name": f"gpu-{n}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}
        for n in range(DEVICES)
    ]
    spec: dict[str, Any] = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    if number % PARTED == 0:
        for n, device in enumerate(devices):
            taken = {"memory": {"value": "20Gi"}}
            device["consumesCounters"] = [{"counterSet": f"card-{n % 2}", "counters": taken}]
        totals = {"memory": {"value": "80Gi"}}
        spec["sharedCounters"] = [{"name": f"card-{n}", "counters": totals} for n in range(2)]
    return _made(API, "ResourceSlice", f"slice-{number}", 3 * 10**6 + number, spec=spec)


def _pair(seen: synthetic.Seen, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod that is bound, and its claim."""
    life = seen.life
    node, is_named = f"node-{number // DEVICES:03d}", number % NAMED == 0
    life.stage = synthetic.BOUND
    pod = synthetic._pod(seen)
    life.stage = synthetic.CREATED
    name = f"claim-{number}"
    uses = {"resourceClaimName": name} if is_named else {"resourceClaimTemplateName": "card"}
    pod["spec"] |= {"nodeName": node, "resourceClaims": [{"name": "gpu", **uses}]}
    for container in pod["spec"]["containers"]:
        asked = {key: n for key, n in container["resources"]["requests"].items() if "gpu" not in key}  # fmt: skip
        container["resources"] = {"requests": asked, "limits": asked, "claims": [{"name": "gpu"}]}
    metadata: dict[str, Any] = {"namespace": life.job.namespace}
    if not is_named:
        pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": name}]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": life.name, "uid": life.uid}
        metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
        metadata["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    ask = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{number % DEVICES}"}
    claim = _made(
        API, "ResourceClaim", name, 4 * 10**6 + number,
        metadata=metadata,
        spec={"devices": {"requests": [{"name": "gpu", "exactly": ask}]}},
        status={
            "allocation": {
                "devices": {"results": [result]},
                "allocationTimestamp": format_stamp(life.bound_us or life.created_us),
            },
            "reservedFor": [{"resource": "pods", "name": life.name, "uid": life.uid}],
        },
    )  # fmt: skip
    return pod, claim


def write(etcd: traffic.Etcd, found: Iterator[Stored]) -> None:
    """Store all of it, as the API server stores its objects."""

    def text(content: bytes) -> str:
        return base64.b64encode(content).decode()

    for part in ledgers.parts(found, 100):
        puts = [
            {"requestPut": {"key": text(f"/registry/{key}".encode()), "value": text(json.dumps(one).encode())}}
            for key, one in part
        ]  # fmt: skip
        etcd.ask("txn", {"success": puts})


def run(args: argparse.Namespace) -> Report:
    """All rounds on one control plane."""
    with (
        tempfile.TemporaryDirectory(prefix="bursar-bench-") as name,
        ControlPlane(controllers=False, scheduler=False, simulator=False) as plane,
    ):
        began = time.perf_counter()
        write(traffic.Etcd(plane.etcd_url), objects(args.pods, args.nodes))
        expected = count(args.pods, args.nodes)
        notes = [f"{expected} objects written in {time.perf_counter() - began:.0f} s"]
        rates, cpu = [], time.process_time()
        for n in range(args.rounds):
            rates.append(
                asyncio.run(
                    first_sync(
                        plane,
                        Path(name) / f"sync-{n}",
                        expected,
                        SOURCES,
                        is_apart=bool(args.apart),
                    )
                )
            )
        cpu = (time.process_time() - cpu) / expected / args.rounds
        notes.append(f"{cpu * 1e6:.0f} us of CPU an object in this process, without the bus")
        notes.append(f"load average at the end {os.getloadavg()[0]:.1f}")
    goal = measure.verdict("first sync with claims, objects/s into the ledger", rates, ">=", 4000)
    return {"rounds": args.rounds, "per_event": {}, "goals": [goal], "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, __doc__ or "", pods=15_000, nodes=2_000, apart=0))

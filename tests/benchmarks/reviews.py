"""A load of admission reviews: raw HTTP/1.1 over TLS on keep-alive connections, as an API server sends them.

    python -m tests.benchmarks.reviews https://127.0.0.1:9443/admit --ca ca.pem --connections 64 --rate 200 --count 2000

Two shapes. `closed_loop`: each connection sends its next review when it has the answer of the last; says the highest
rate. `fixed_rate`: review k is due at k / rate; its latency counts from when it was *due*, also when all connections
were busy then, so a slow answer is not hidden by the requests that it held up (no coordinated omission).

Run it in a process of its own: it takes about as much CPU as what it measures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import ssl
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvloop


@dataclass(frozen=True)
class Target:
    """Where reviews are posted."""

    url: str
    ca_file: str = ""
    client_certificate: str = ""
    """PEM file of certificate and key, where the server asks for one."""

    def context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.client_certificate:
            context.load_cert_chain(self.client_certificate)
        return context


@dataclass
class Outcome:
    """What a load met."""

    latencies_us: array = field(default_factory=lambda: array("q"))
    """One of each answered review, in the order of the answers."""
    answers: Counter = field(default_factory=Counter)
    """By HTTP status, and `allowed` or `denied` for 200; `lost` for a connection that closed under a review."""
    seconds: float = 0.0

    def quantile_us(self, share: float) -> int:
        """The latency that `share` of all reviews did not exceed."""
        ordered = sorted(self.latencies_us)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies_us) / self.seconds

    def summary(self) -> dict[str, object]:
        """For a report: answers, rate, and latencies in microseconds."""
        quantiles = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999, "max_us": 1.0}
        return {
            "answers": {str(key): count for key, count in self.answers.items()},
            "per_second": round(self.rate, 1),
            **{name: self.quantile_us(share) for name, share in quantiles.items()},
        }


Bodies = Callable[[int], bytes]
"""The body of review number k, from 0."""


async def closed_loop(target: Target, bodies: Bodies, *, connections: int, count: int) -> Outcome:
    """`count` reviews, each connection one at a time, as fast as they are answered."""
    clients = await _connected(target, connections)
    return await _load(clients, bodies, iter(range(count)), _now(), lambda _: _now())


async def fixed_rate(
    target: Target, bodies: Bodies, *, connections: int, rate: float, count: int
) -> Outcome:
    """`count` reviews, `rate` of them due every second, whoever is free sends the next."""
    clients = await _connected(target, connections)
    begins = _now()
    return await _load(clients, bodies, iter(range(count)), begins, lambda k: begins + k / rate)


#: uvloop's own time stands still for a millisecond.
_now = time.perf_counter


async def _connected(target: Target, connections: int) -> list[Client]:
    clients = [Client(target) for _ in range(connections)]
    await asyncio.gather(*(client.connect() for client in clients))
    return clients


async def _load(
    clients: list[Client],
    bodies: Bodies,
    numbers: Iterator[int],
    began: float,
    due: Callable[[int], float],
) -> Outcome:
    outcome = Outcome()

    async def work(client: Client) -> None:
        for number in numbers:  # one iterator for all: a number is taken once
            at = due(number)
            if (wait := at - _now()) > 0:
                await asyncio.sleep(wait)
            answer = await client.post(bodies(number))
            if answer is None:
                outcome.answers["lost"] += 1
                continue
            outcome.latencies_us.append(int((_now() - at) * 1_000_000))
            outcome.answers[_meaning(*answer)] += 1

    await asyncio.gather(*(work(client) for client in clients))
    outcome.seconds = _now() - began
    for client in clients:
        client.close()
    return outcome


def _meaning(status: int, body: bytes) -> int | str:
    if status != 200:
        return status
    return "allowed" if b'"allowed":true' in body else "denied"


class Client(asyncio.Protocol):
    """One connection; closed by the other side it connects again for the next review."""

    def __init__(self, target: Target) -> None:
        self._context = target.context()
        parts = urlsplit(target.url)
        self._host, self._port = parts.hostname or "", parts.port
        self._head = (
            f"POST {parts.path}?timeout=5s HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "User-Agent: kube-apiserver-admission\r\nAccept: application/json\r\n"
            "Content-Type: application/json\r\nAccept-Encoding: gzip\r\nContent-Length: "
        ).encode()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future | None = None
        self._received = b""

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, self._host, self._port, ssl=self._context)

    async def post(self, body: bytes) -> tuple[int, bytes] | None:
        """Status and body of the answer; None where the connection closed instead."""
        if self._transport is None:
            await self.connect()
        self._received = b""
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(self._head + str(len(body)).encode() + b"\r\n\r\n" + body)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            # A farewell would wait for the other side, longer than a loop may run.
            self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._answer(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        status, fields = _head(head)
        if len(body) < int(fields[b"content-length"]):
            return
        if fields.get(b"connection") == b"close":
            # At once: told of it later, this would forget the next connection instead.
            self._transport.abort()
            self._transport = None
        self._answer((status, body))

    def _answer(self, answer: tuple[int, bytes] | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)


def _head(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    lines = head.split(b"\r\n")
    fields = (line.partition(b":") for line in lines[1:])
    return int(lines[0].split(b" ")[1]), {name.lower(): value.strip() for name, _, value in fields}


def deployment(number: int, *, namespace: str = "team", replicas: int = 1) -> dict[str, object]:
    """A Deployment of about 3 KB as an API server shows it, every number another object."""
    name = f"service-{number}"
    fields = {f"f:{key}": {} for key in ("image", "name", "resources", "env", "ports", "command")}
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {
        "name": "main",
        "image": "registry.example.org/service:1",
        "env": [{"name": f"VARIABLE_{n}", "value": "value"} for n in range(16)],
        "resources": {"limits": amounts, "requests": amounts},
    }
    labels = {"app.kubernetes.io/name": name, "bursar.io/team": namespace}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "generation": 1,
        "creationTimestamp": "2026-10-26T08:00:00Z",
        "labels": labels,
        "annotations": {"description": "x" * 600},
        "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": fields}] * 3,
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def create(number: int, item: dict[str, object] | None = None) -> bytes:
    """The body of a review that creates `item`; by default a :func:`deployment`, another for every number."""
    item = item or deployment(number)
    metadata = item["metadata"]
    group, _, version = str(item["apiVersion"]).rpartition("/")
    kind = {"group": group, "version": version, "kind": item["kind"]}
    resource = {"group": group, "version": version, "resource": f"{item['kind']}s".lower()}
    request = {
        "uid": f"ffffffff-0000-4000-8000-{number:012d}",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
        "object": item,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return msgspec.json.encode(review)


def main() -> None:
    """One load, told by the command line; its summary as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.reviews")
    parser.add_argument("url")
    parser.add_argument("--ca", default="", help="authorities that the server may be signed by")
    parser.add_argument("--certificate", default="", help="our own certificate and key")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0, help="reviews a second; 0 = closed loop")
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--latencies", type=Path, help="write every latency here, one a line")
    args = parser.parse_args()
    target = Target(args.url, args.ca, args.certificate)
    made = [create(number) for number in range(min(args.count, 10_000))]

    async def run() -> Outcome:
        take = {"connections": args.connections, "count": args.count}
        if args.rate:
            return await fixed_rate(target, lambda k: made[k % len(made)], rate=args.rate, **take)
        return await closed_loop(target, lambda k: made[k % len(made)], **take)

    outcome = uvloop.run(run())
    if args.latencies:
        args.latencies.write_text("".join(f"{us}\n" for us in outcome.latencies_us))
    print(json.dumps(outcome.summary()))


if __name__ == "__main__":
    main()

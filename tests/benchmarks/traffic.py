"""Makes work for a real API server, as a process of its own: creates a cluster's objects, or changes pods at a rate.

Raw HTTP/1.1 on connections kept open, one a thread: the least that a client can cost on a machine that the server and
the measured process share. Pods are changed in etcd, below the API server: a patch costs the server 5 to 10 ms of CPU here,
so that two cores shared with everything else answered 190 a second; what is measured begins at its watch, which tells
every new version of a stored object all the same.

The order comes as one JSON object on stdin (it holds a token, which a command line would show); changes are told on
stdout, one line each: uid, resourceVersion, time of the answer in microseconds.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.benchmarks import synthetic
from tests.benchmarks.synthetic import Seen

Request = tuple[str, str, str, bytes]

JOBS = 1_600


class Order(msgspec.Struct):
    """What to do. ``pods``: how many to create; ``names``: (namespace, name, uid) of the pods to change in ``etcd``."""

    url: str
    token: str
    ca_file: str
    threads: int = 8
    pods: int = 0
    etcd: str = ""
    names: list[tuple[str, str, str]] = []
    rate: float = 0.0
    seconds: float = 0.0


class Connection:
    """One connection, kept open."""

    def __init__(self, order: Order) -> None:
        address = urlsplit(order.url)
        context = ssl.create_default_context(cafile=order.ca_file)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=30, context=context
        )
        self._headers = {"Authorization": f"Bearer {order.token}", "Accept": "application/json"}

    def send(self, request: Request) -> bytes:
        """The answer's body. Raises RuntimeError for a refusal."""
        method, path, kind, body = request
        self._connection.request(method, path, body, {**self._headers, "Content-Type": kind})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
        return content


def objects(pods: int) -> list[Iterator[Request]]:
    """Requests in stages: namespaces and nodes, then Jobs, then ``pods`` pods; pods of one stage in any order."""
    spaces = [
        _created("/api/v1/namespaces", _meta(f"team-{n % 10}-space-{n}", {"bursar.io/team": f"team-{n % 10}"}))
        for n in range(synthetic.NAMESPACES)
    ]  # fmt: skip
    nodes = [
        _created("/api/v1/nodes", _meta(f"node-{n:03d}", {"nvidia.com/gpu.product": "NVIDIA-L4"}))
        for n in range(synthetic.NODES)
    ]
    jobs = (_job(number) for number in range(JOBS))
    seen = synthetic.pods(10 * pods + 10, live=pods)
    born = (_pod(one) for one in seen if one.life.stage == synthetic.CREATED)
    return [iter([*spaces, *nodes]), jobs, islice(born, pods)]


def count(pods: int) -> int:
    """Objects that :func:`objects` creates."""
    return synthetic.NAMESPACES + synthetic.NODES + JOBS + pods


def _meta(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def _created(path: str, body: dict[str, Any]) -> Request:
    return "POST", path, "application/json", json.dumps(body).encode()


def _job(number: int) -> Request:
    space = number % synthetic.NAMESPACES
    template = {
        "spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"},
    }
    body = {"metadata": {"name": f"job-{number}"}, "spec": {"template": template}}
    return _created(f"/apis/batch/v1/namespaces/team-{space % 10}-space-{space}/jobs", body)


def _pod(seen: Seen) -> Request:
    """A pod that is bound already, with everything that makes a real one 4 KB."""
    seen.life.stage = synthetic.BOUND
    pod = synthetic._pod(seen)
    seen.life.stage = synthetic.CREATED
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    body = {"metadata": {name: pod["metadata"][name] for name in kept}, "spec": pod["spec"]}
    return _created(f"/api/v1/namespaces/{seen.life.job.namespace}/pods", body)


def create(order: Order) -> None:
    """Creates everything, stage by stage, on all connections at once."""
    for stage in objects(order.pods):
        lock, failures = threading.Lock(), []

        def work(
            stage: Iterator[Request] = stage, lock: Any = lock, failed: Any = failures
        ) -> None:
            connection = Connection(order)
            while True:
                with lock:
                    request = next(stage, None)
                if request is None:
                    return
                try:
                    connection.send(request)
                except RuntimeError as error:
                    failed.append(str(error))
                    return

        _on_threads([work] * order.threads)
        if failures:
            raise SystemExit(failures[0])


def change(order: Order) -> None:
    """Writes one pod after the other again at the given rate, as it is; prints what was answered, at the end."""
    answers: list[tuple[str, str, int]] = []
    stored = Etcd(order.etcd)
    pods = [
        (uid, *stored.read(f"/registry/pods/{space}/{name}")) for space, name, uid in order.names
    ]
    begin = time.monotonic() + 0.2

    def work(thread: int) -> None:
        etcd = Etcd(order.etcd)
        for number in range(thread, int(order.rate * order.seconds), order.threads):
            time.sleep(max(begin + number / order.rate - time.monotonic(), 0))
            uid, key, value = pods[number % len(pods)]
            version = etcd.ask("put", {"key": key, "value": value})["header"]["revision"]
            answers.append((uid, version, time.time_ns() // 1000))

    _on_threads([lambda n=n: work(n) for n in range(order.threads)])
    sys.stdout.write("".join(json.dumps(answer) + "\n" for answer in answers))


class Etcd:
    """One connection to etcd's JSON gateway. Keys and values are base64."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port)

    def ask(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of /v3/kv/``what``."""
        self._connection.request("POST", f"/v3/kv/{what}", json.dumps(body).encode())
        answer = self._connection.getresponse()
        content: dict[str, Any] = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"etcd: {answer.status} {content}")
        return content

    def read(self, path: str) -> tuple[str, str]:
        """(key, value) of what is stored under ``path``."""
        key = base64.b64encode(path.encode()).decode()
        return key, self.ask("range", {"key": key})["kvs"][0]["value"]


def _on_threads(work: list[Any]) -> None:
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    """Carry out the order on stdin."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    if order.pods:
        create(order)
    if order.rate:
        change(order)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Pods that come and go on a real API server by every kind of claim, by raw writes that play scheduler and kubelet.

A *life* is one claim with its pods, or a pod of a device plugin: a generator that makes one write after the other and says how
long to wait in between. Threads play many lives at once. The writes whose moment is known by their observation alone (an
allocation is taken back, an object is deleted) go through a gate: closed, none of them is under way, so
a watcher that is killed misses none.
"""

import heapq
import random
import threading
import time
import uuid
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

from tests.acceptance.claims_cards import DRIVER, offered
from tests.acceptance.raw_writes import Client, Gate
from tests.cluster.api import MERGE
from tests.cluster.nodes import node

NAMESPACE = "churn"
GROUP = "/apis/resource.k8s.io/v1"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS = f"{GROUP}/namespaces/{NAMESPACE}/resourceclaims"
KINDS = {"template": 25, "shared": 7, "extended": 15, "partition": 18, "capacity": 18, "plugin": 10}
#: Between the end of a claim as it is observed and the next one on its card.
APART_SECONDS = 2.0
TEAMS = ("vision", "language", "robotics")


def set_up(api, cards):
    """Nodes, slices, a class that serves an extended resource, and the namespace."""
    with closing(Client(api)) as client:
        _set_up(client, cards)


def _set_up(client, cards):
    client.write("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    client.write("POST", "/api/v1/namespaces", {"metadata": {"name": "markers"}})
    for pool in cards.pools():
        client.write("POST", "/api/v1/nodes", node(pool, 0, "", "96", "768Gi"))
        for one in offered(pool):
            client.write("POST", f"{GROUP}/resourceslices", one)
    client.write("POST", "/api/v1/nodes", node("plugin", 8, "NVIDIA-V100", "96", "768Gi"))
    of_class = {"metadata": {"name": DRIVER}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    client.write("POST", f"{GROUP}/deviceclasses", of_class)


@dataclass
class Life:
    """One claim with its pods. ``lost``: names of pods that somebody else deleted."""

    kind: str
    name: str
    pods: int
    rng: random.Random
    running: set = field(default_factory=set)
    lost: set = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def stays(self):
        """Whether its pod holds to the end."""
        return self.kind != "shared" and self.name.endswith("7")

    @property
    def claim(self):
        return f"{self.name}-claim"


class Churn:
    """All lives, played by threads. ``done``: how many are over; ``failures``: what ended a thread."""

    def __init__(self, api, cards, pods, seed, told, threads=8, per_second=25):
        """``told`` gives the version of claims up to which a watch has told."""
        self.cards, self.gate, self._told = cards, Gate(), told
        self._api, self._rng = api, random.Random(seed)
        self.lives = list(self._planned(pods))
        self.failures, self.writes = [], Counter()
        self._due = [
            (time.monotonic() + self._rng.random() * pods / per_second, n, self._lived(life))
            for n, life in enumerate(self.lives)
        ]
        heapq.heapify(self._due)
        self._left, self._changed = len(self.lives), threading.Condition()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        self._own = threading.local()

    def start(self):
        """Returns at once."""
        for one in self._threads:
            one.start()

    @property
    def left(self):
        """Lives that are not over. Raises what ended a thread."""
        if self.failures:
            raise self.failures[0]
        return self._left

    def _planned(self, pods):
        while pods > 0:
            (kind,) = self._rng.choices(list(KINDS), list(KINDS.values()))
            count = min(self._rng.randrange(2, 6), pods) if kind == "shared" else 1
            pods -= count
            yield Life(kind, f"{kind}-{pods}", count, random.Random(self._rng.random()))

    def _work(self):
        with closing(Client(self._api)) as self._own.client:
            try:
                while self._step():
                    pass
            except Exception as error:
                self.failures.append(error)

    def _step(self):
        """Take one step of the life that is due; false when all are over."""
        with self._changed:
            while not self._due or self._due[0][0] > time.monotonic():
                if not self._left or self.failures:
                    return False
                self._changed.wait(
                    min(0.2, max(0.0, self._due[0][0] - time.monotonic())) if self._due else 0.2
                )
            _, number, life = heapq.heappop(self._due)
        delay = next(life, None)
        with self._changed:
            if delay is None:
                self._left -= 1
            else:
                heapq.heappush(self._due, (time.monotonic() + delay, number, life))
            self._changed.notify()
        return True

    def _write(self, method, path, body=None, **options):
        self.writes[method] += 1
        return self._own.client.write(method, path, body, **options)

    def _gated(self, method, path, body=None, **options):
        """A write that passes the gate, when it is open."""
        while not self.gate.enter():
            yield 0.2
        try:
            return self._write(method, path, body, **options)
        finally:
            self.gate.leave()

    # A life.

    def _lived(self, life):
        rng = life.rng
        if life.kind == "plugin":
            yield from self._of_pod(life, life.name, "plugin")
            return
        pods = {}
        if life.kind != "shared":
            pods[life.name] = self._created(life, life.name)
        while not (devices := self._devices(life)):
            yield 0.3
        self._claimed(life, devices, pods.get(life.name))
        if life.kind == "extended":
            self._mapped(life)
        elif life.kind != "shared":
            said = [{"name": "gpu", "resourceClaimName": life.claim}]
            self._status(life.name, {"resourceClaimStatuses": said})
        yield rng.random()
        self._allocated(life, devices)
        yield rng.choice((0.0, 0.2, 2.5))
        node_name = devices[0][0]
        if life.kind == "shared":
            yield from self._together(life, node_name)
        else:
            yield from self._of_pod(life, life.name, node_name, is_made=True)
        if life.stays:
            return
        yield rng.choice((0.0, 0.5, 3.0))
        back = {"status": {"reservedFor": None, "allocation": None}}
        freed = yield from self._gated(
            "PATCH", f"{CLAIMS}/{life.claim}/status", back, content_type=MERGE
        )
        # A watch may be told seconds late.
        while self._told() < int(freed["metadata"]["resourceVersion"]):
            yield 0.3
        yield APART_SECONDS
        self.cards.give_back(devices)
        yield from self._gated("DELETE", f"{CLAIMS}/{life.claim}")

    def _together(self, life, node_name):
        """Pods of one claim, one beside the other as it comes."""
        coming = [
            (life.rng.random() * 5, self._of_pod(life, f"{life.name}-{n}", node_name))
            for n in range(life.pods)
        ]
        while coming:
            coming.sort(key=lambda one: one[0])
            (at, pod), *coming = coming
            yield at
            coming = [(max(0.0, other - at), one) for other, one in coming]
            if (delay := next(pod, None)) is not None:
                coming.append((delay, pod))

    def _of_pod(self, life, name, node_name, *, is_made=False):
        rng = life.rng
        if not is_made:
            self._created(life, name)
            yield rng.random()
        target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
        self._write(
            "POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target}
        )
        self._status(name, {"phase": "Running"})
        life.running.add(name)
        if life.stays:
            return
        yield rng.random() * 6
        if rng.random() < 0.7:
            with life.lock:
                life.running.discard(name)
                if name not in life.lost:
                    self._finished(name)
            yield rng.random()
        with life.lock:
            life.running.discard(name)
            is_there = name not in life.lost
        if is_there:
            yield from self._gated("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def running(self):
        """Names of pods that hold a claim alone and will end."""
        return {one.name for one in self.lives if one.name in one.running and not one.stays}

    def lose(self, most, names):
        """Delete some of these pods, if they run still, while nobody watches; the second of each delete by name."""
        found, client = {}, Client(self._api)
        for life in self.lives:
            with closing(client), life.lock:
                if len(found) < most and life.name in names & life.running:
                    life.lost.add(life.name)
                    life.running.discard(life.name)
                    client.write("DELETE", f"{PODS}/{life.name}", {"gracePeriodSeconds": 0})
                    found[life.name] = int(time.time())
        return found

    # Single writes.

    def _devices(self, life):
        if life.kind == "partition":
            return self.cards.part()
        if life.kind == "capacity":
            return self.cards.share()
        return self.cards.whole(1 if life.kind == "extended" else life.rng.choice((1, 1, 2)))

    def _created(self, life, name):
        """The uid of a new pod."""
        cpu, memory = life.rng.choice(("250m", "1", "3")), life.rng.choice(("1Gi", "300Mi"))
        amounts = {"cpu": cpu, "memory": memory}
        container = {"name": "main", "image": "x", "resources": {}}
        spec = {"containers": [container], "restartPolicy": "Never"}
        if life.kind in ("plugin", "extended"):
            amounts["nvidia.com/gpu"] = "2" if life.kind == "plugin" else "1"
        else:
            source = (
                {"resourceClaimName": life.claim}
                if life.kind == "shared"
                else {"resourceClaimTemplateName": "some"}
            )
            spec["resourceClaims"] = [{"name": "gpu", **source}]
            container["resources"]["claims"] = [{"name": "gpu"}]
        container["resources"] |= {"requests": amounts, "limits": amounts}
        labels = {"bursar.io/team": life.rng.choice(TEAMS)}
        return self._write(
            "POST", PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec}
        )["metadata"]["uid"]

    def _claimed(self, life, devices, pod):
        """Make the claim; ``pod`` is the uid of the pod for which Kubernetes would have made it."""
        exactly = {"deviceClassName": DRIVER, "count": len(devices), "allocationMode": "ExactCount"}
        metadata = {"name": life.claim}
        if pod:
            kind = "extended-resource-claim" if life.kind == "extended" else "pod-claim-name"
            owner = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": life.name,
                "uid": pod,
                "controller": True,
            }
            metadata |= {
                "ownerReferences": [owner],
                "annotations": {f"resource.kubernetes.io/{kind}": "gpu"},
            }
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        self._write("POST", CLAIMS, {"metadata": metadata, "spec": spec})

    def _mapped(self, life):
        mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "gpu"}
        told = {"resourceClaimName": life.claim, "requestMappings": [mapping]}
        self._status(life.name, {"extendedResourceClaimStatus": told})

    def _allocated(self, life, devices):
        results = [
            {"request": "gpu", "driver": DRIVER, "pool": pool, "device": name}
            | (
                {}
                if gib is None
                else {
                    "shareID": str(uuid.UUID(int=life.rng.getrandbits(128), version=4)),
                    "consumedCapacity": {"memory": f"{gib}Gi"},
                }
            )
            for pool, name, gib in devices
        ]
        given = {"devices": {"results": results}, "allocationTimestamp": stamp()}
        self._write(
            "PATCH",
            f"{CLAIMS}/{life.claim}/status",
            {"status": {"allocation": given}},
            content_type=MERGE,
        )

    def _finished(self, name):
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp(), "finishedAt": stamp()}
        one = {
            "name": "main",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        self._status(name, {"phase": "Succeeded", "containerStatuses": [one]})

    def _status(self, name, status):
        self._write("PATCH", f"{PODS}/{name}/status", {"status": status}, content_type=MERGE)


def stamp():
    """Now, as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

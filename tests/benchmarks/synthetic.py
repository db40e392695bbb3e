"""A made-up cluster at work: the events of any number of pod life cycles, and the watch lines behind them.

Deterministic for a seed, and streaming: memory is that of the pods that live at one moment. 50 namespaces
of 10 teams, 200 nodes, 3,000 pods at a time, 8 pods to a Job. A pod is seen about seven times: created, bound,
running, changed (a condition, or the end of its containers), terminating, deleted with grace 0, gone.

:func:`events` makes the facts directly, which is fast enough to fill a ledger with a million; :func:`lines`
makes the API server's watch lines of the same observations, with everything a source throws away (managed
fields, environment, volumes): 4.6 KB on average. ``test_synthetic.py`` proves that translating the second
gives the first.

    python -m tests.benchmarks.synthetic [--events N]      # prints what it consists of
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from bus.amounts import ContainerResources, PodResources
from bus.clock import format_stamp
from bus.envelope import Event
from bus.events.constraints import PodConstraints
from bus.events.namespaces import NamespaceObserved
from bus.events.nodes import NodeObserved
from bus.events.pods import Owner, PodObserved, PodVanished, encoded_resources
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.sources.images import image_key
from bus.sources.limits import LIMITED, whole_limits

NAMESPACES = 50
NODES = 200
LIVE_PODS = 3_000
PODS_OF_A_JOB = 8
MEAN_LIFE_SECONDS = 1_200

CLUSTER = "c1"
SOURCE = "kubernetes/pods"
SECOND = 1_000_000
BEGIN_US = 1_790_000_000 * SECOND
GRACE_SECONDS = 30

CREATED, BOUND, RUNNING, CHANGED, TERMINATING, STOPPED, GONE = range(7)

MODELS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4", None)
SHAPES = (
    {"cpu": "500m", "memory": "1Gi"},
    {"cpu": "2", "memory": "8Gi"},
    {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
    {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
    {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "2"},
    {"cpu": "48", "memory": "512Gi", "nvidia.com/gpu": "8"},
    {"cpu": "1500m", "memory": "6144Mi"},
    {"cpu": "250m", "memory": "268435456"},
)
SIDECAR = {"cpu": "100m", "memory": "128Mi"}


@dataclass(slots=True)
class Job:
    """The controller of some pods."""

    uid: str
    name: str
    namespace: str
    team: str
    user: str
    shape: dict[str, str]
    alive: int = 0


@dataclass(slots=True)
class Life:
    """One pod: who it is, and what has happened to it up to ``stage``."""

    uid: str
    name: str
    job: Job
    node: str
    created_us: int
    succeeds: bool
    life_seconds: float
    stage: int = CREATED
    bound_us: int = 0
    running_us: int = 0
    changed_us: int = 0
    deletion_us: int = 0


class Seen(NamedTuple):
    """One observation; ``life`` changes afterwards, so it has to be rendered at once."""

    life: Life
    version: int
    time_us: int


class Cluster:
    """The cluster in motion. Iterate over :meth:`observations` once."""

    def __init__(self, *, seed: int = 1, live: int = LIVE_PODS) -> None:
        self._random = random.Random(seed)
        self._live = live
        self._version = 1_000_000
        self._number = 0
        self._job: Job | None = None
        self._left = 0

    def facts(self) -> Iterator[Event]:
        """Everything as events, for ever: namespaces and nodes first, then Jobs and pods."""
        yield from self._namespaces()
        yield from self._nodes()
        for seen in self.observations():
            yield seen if isinstance(seen, Event) else pod_event(seen)

    def observations(self) -> Iterator[Seen | Event]:
        """Observations of pods, and events of their Jobs, in order of time, for ever."""
        spread = MEAN_LIFE_SECONDS * SECOND // self._live
        due = [(BEGIN_US + slot * spread, slot) for slot in range(self._live)]
        lives: dict[int, Life] = {}
        while True:
            time_us, slot = heapq.heappop(due)
            life = lives.get(slot)
            if life is None:
                yield from self._begun(time_us)
                life = lives[slot] = self._born(time_us)
            else:
                self._advance(life, time_us)
            yield Seen(life, self._next(), time_us)
            if life.stage == GONE:
                del lives[slot]
                yield from self._ended(life.job, time_us)
            heapq.heappush(due, (time_us + self._pause(life), slot))

    def _next(self) -> int:
        self._version += self._random.randrange(1, 6)
        return self._version

    def _uid(self) -> str:
        bits = f"{self._random.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"

    def _namespaces(self) -> Iterator[Event]:
        for number in range(NAMESPACES):
            fact = NamespaceObserved(
                uid=self._uid(),
                name=f"team-{number % 10}-space-{number}",
                resource_version=str(self._next()),
                created=format_stamp(BEGIN_US - SECOND),
                team=f"team-{number % 10}",
                user=f"user-{number}",
            )
            yield _event(fact, fact.name, BEGIN_US)

    def _nodes(self) -> Iterator[Event]:
        for number in range(NODES):
            fact = NodeObserved(
                uid=self._uid(),
                name=f"node-{number:03d}",
                resource_version=str(self._next()),
                created=format_stamp(BEGIN_US - SECOND),
                model=MODELS[number % len(MODELS)],
                allocatable={"cpu": "96", "memory": "768Gi", "nvidia.com/gpu": "8"},
                ready=True,
            )
            yield _event(fact, fact.name, BEGIN_US)

    def _begun(self, time_us: int) -> Iterator[Event]:
        """A new Job, where the last one has all its pods."""
        if self._left:
            return
        self._number += 1
        number = self._random.randrange(NAMESPACES)
        self._job = Job(
            self._uid(),
            f"train-{self._number}",
            f"team-{number % 10}-space-{number}",
            f"team-{number % 10}",
            f"user-{number}",
            self._random.choice(SHAPES),
        )
        self._left = PODS_OF_A_JOB
        job, version = self._job, str(self._next())
        fact = WorkloadObserved(
            uid=job.uid,
            kind="Job",
            namespace=job.namespace,
            name=job.name,
            resource_version=version,
            created=format_stamp(_whole(time_us)),
        )
        yield _event(fact, job.uid, time_us)

    def _ended(self, job: Job, time_us: int) -> Iterator[Event]:
        job.alive -= 1
        if job.alive or job is self._job:
            return
        fact = WorkloadVanished(
            uid=job.uid,
            kind="Job",
            namespace=job.namespace,
            name=job.name,
            resource_version=str(self._next()),
        )
        yield _event(fact, job.uid, time_us)

    def _born(self, time_us: int) -> Life:
        job = self._job
        assert job is not None
        self._left -= 1
        job.alive += 1
        return Life(
            self._uid(),
            f"{job.name}-{self._left}-{self._random.getrandbits(24):06x}",
            job,
            f"node-{self._random.randrange(NODES):03d}",
            _whole(time_us),
            self._random.random() < 0.4,
            self._random.expovariate(1 / MEAN_LIFE_SECONDS),
        )

    def _advance(self, life: Life, time_us: int) -> None:
        life.stage += 1
        if life.stage == BOUND:
            life.bound_us = _whole(time_us)
        elif life.stage == RUNNING:
            life.running_us = _whole(time_us)
        elif life.stage == CHANGED:
            life.changed_us = _whole(time_us)
        elif life.stage == TERMINATING:
            life.deletion_us = _whole(time_us) + GRACE_SECONDS * SECOND
        elif life.stage == STOPPED:
            life.deletion_us = _whole(time_us)

    def _pause(self, life: Life) -> int:
        """Microseconds until the next thing happens to a pod, or to its place when it is gone."""
        seconds = {
            CREATED: self._random.expovariate(1 / 3),
            BOUND: 1 + self._random.expovariate(1 / 5),
            RUNNING: life.life_seconds,
            CHANGED: life.life_seconds / 4,
            TERMINATING: self._random.uniform(1, GRACE_SECONDS),
            STOPPED: 0.002,
            GONE: self._random.expovariate(1 / 2),
        }[life.stage]
        return int(seconds * SECOND) + 1


def events(count: int, *, seed: int = 1, live: int = LIVE_PODS) -> Iterator[Event]:
    """The first ``count`` events of a cluster's history, with sequences from 1."""
    for number, event in enumerate(Cluster(seed=seed, live=live).facts(), 1):
        yield msgspec.structs.replace(event, sequence=number)
        if number == count:
            return


def pods(count: int, *, seed: int = 1, live: int = LIVE_PODS) -> Iterator[Seen]:
    """The first ``count`` observations of pods alone; render each before the next is asked for."""
    number = 0
    for seen in Cluster(seed=seed, live=live).observations():
        if isinstance(seen, Seen):
            number += 1
            yield seen
            if number == count:
                return


def lines(count: int, *, seed: int = 1, live: int = LIVE_PODS) -> Iterator[bytes]:
    """The watch lines of the first ``count`` observations of pods, without their line ends."""
    for seen in pods(count, seed=seed, live=live):
        yield watch_line(seen)


def pod_event(seen: Seen) -> Event:
    """What a source says when it is shown ``seen``."""
    life = seen.life
    deleted = life.stage >= TERMINATING
    fact = (PodVanished if life.stage == GONE else PodObserved)(
        uid=life.uid,
        namespace=life.job.namespace,
        name=life.name,
        resource_version=str(seen.version),
        created=format_stamp(life.created_us),
        phase=_phase(life),
        node=life.node if life.stage >= BOUND else None,
        scheduled=format_stamp(life.bound_us) if life.stage >= BOUND else None,
        deletion=format_stamp(life.deletion_us) if deleted else None,
        grace_seconds=_grace(life) if deleted else None,
        finished=(format_stamp(life.changed_us),) if _has_finished(life) else (),
        acknowledged=format_stamp(life.bound_us) if _has_finished(life) else None,
        ran="regular" if _has_finished(life) else "",
        written=format_stamp(life.created_us) if _has_finished(life) else None,
        owner=Owner("Job", life.job.name, life.job.uid),
        team=life.job.team,
        user=life.job.user,
        labels=_kept(life),
        resources=_resources(life),
        limits=_limits(life.job.shape),
        constraints=_CONSTRAINTS if life.stage >= BOUND else _WAITING,
    )
    return _event(fact, life.uid, seen.time_us)


def _event(fact: Any, key: str, time_us: int) -> Event:
    assert isinstance(fact, Fact)
    id = f"{fact.wire_type}/{fact.uid}/{fact.resource_version}"  # type: ignore[attr-defined]
    return fact.event(cluster=CLUSTER, key=key, id=id, source=SOURCE, time_us=time_us)


def _whole(time_us: int) -> int:
    """Stamps of the API server have whole seconds."""
    return time_us - time_us % SECOND


def _has_finished(life: Life) -> bool:
    return life.succeeds and life.stage >= CHANGED


def _phase(life: Life) -> str:
    if _has_finished(life):
        return "Succeeded"
    return "Running" if life.stage >= RUNNING else "Pending"


def _grace(life: Life) -> int:
    return GRACE_SECONDS if life.stage == TERMINATING else 0


def _kept(life: Life) -> dict[str, str]:
    return {
        "app": "trainer",
        "batch.kubernetes.io/job-name": life.job.name,
        "bursar.io/team": life.job.team,
        "bursar.io/user": life.job.user,
        "job-name": life.job.name,
    }


#: What the volumes of each pod demand of its node.
_CONSTRAINTS = msgspec.Raw(msgspec.json.encode(PodConstraints(claims=("datasets",))))
#: The same while it waits for a node.
_WAITING = msgspec.Raw(
    msgspec.json.encode(
        PodConstraints(
            claims=("datasets",),
            images=tuple(
                image_key(f"registry.example.com/ml/{n}:2026.07") for n in ("main", "metrics")
            ),
        )
    )
)
_prepared: dict[tuple[int, bool], msgspec.Raw] = {}


def _limits(shape: Mapping[str, str]) -> dict[str, int] | None:
    """The limits field: what is asked for is the limit, too."""
    shapes = (shape, SIDECAR)
    asked = ({name: one[name] for name in LIMITED if name in one} for one in shapes)
    return whole_limits(PodResources(tuple(ContainerResources(requests=one) for one in asked)))


def _resources(life: Life) -> msgspec.Raw:
    """The resources field: few shapes, so each is encoded once, as equal replicas are alike."""
    key = (SHAPES.index(life.job.shape), life.stage >= RUNNING)
    if key not in _prepared:
        shapes = (life.job.shape, SIDECAR)
        _prepared[key] = encoded_resources(
            PodResources(
                containers=tuple(
                    ContainerResources(
                        requests=shape,
                        actual=shape if key[1] else None,
                        allocated=shape if key[1] else None,
                    )
                    for shape in shapes
                )
            )
        )
    return _prepared[key]


# The line of the API server.


def watch_line(seen: Seen) -> bytes:
    """``seen`` as a line of a watch, as kube-apiserver 1.36 writes it: compact JSON, 3 to 6 KB."""
    change = {CREATED: "ADDED", GONE: "DELETED"}.get(seen.life.stage, "MODIFIED")
    return msgspec.json.encode({"type": change, "object": _pod(seen)})


def _pod(seen: Seen) -> dict[str, Any]:
    life = seen.life
    metadata: dict[str, Any] = {
        "name": life.name,
        "generateName": f"{life.job.name}-",
        "namespace": life.job.namespace,
        "uid": life.uid,
        "resourceVersion": str(seen.version),
        "generation": 1,
        "creationTimestamp": format_stamp(life.created_us),
        "labels": {**_kept(life), "controller-uid": life.job.uid},
        "annotations": {"kubectl.kubernetes.io/default-container": "main", "checksum/config": "c39f" * 16},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1", "kind": "Job", "name": life.job.name, "uid": life.job.uid,
                "controller": True, "blockOwnerDeletion": True,
            }
        ],
        "finalizers": ["batch.kubernetes.io/job-tracking"],
        "managedFields": _managed(life),
    }  # fmt: skip
    if life.stage >= TERMINATING:
        metadata["deletionTimestamp"] = format_stamp(life.deletion_us)
        metadata["deletionGracePeriodSeconds"] = _grace(life)
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": _spec(life),
        "status": _status(life),
    }


def _managed(life: Life) -> list[dict[str, Any]]:
    fields = {
        f"f:{name}": {".": {}, **{f"f:{below}": {} for below in inside}}
        for name, inside in {
            "metadata": ("generateName", "labels", "ownerReferences", "finalizers"),
            "spec": ("containers", "dnsPolicy", "enableServiceLinks", "restartPolicy", "volumes"),
        }.items()
    }
    kubelet = {"f:status": {f"f:{name}": {} for name in ("conditions", "hostIP", "phase", "podIP")}}
    entries = [("kube-controller-manager", fields, ""), ("kubelet", kubelet, "status")]
    return [
        {
            "manager": manager, "operation": "Update", "apiVersion": "v1",
            "time": format_stamp(life.created_us), "fieldsType": "FieldsV1", "fieldsV1": owned,
            **({"subresource": below} if below else {}),
        }
        for manager, owned, below in entries[: 2 if life.stage >= RUNNING else 1]
    ]  # fmt: skip


def _spec(life: Life) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "datasets"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
        ],
        "containers": [
            _container("main", life.job.shape, 10),
            _container("metrics", SIDECAR, 2),
        ],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {"runAsUser": 1000, "fsGroup": 100},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for name in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip
    if life.stage >= BOUND:
        spec["nodeName"] = life.node
    return spec


def _container(name: str, shape: dict[str, str], variables: int) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.example.com/ml/{name}:2026.07",
        "command": ["python", "-m", "trainer.main"],
        "args": ["--epochs", "90", "--batch-size", "256", "--data", "/data/imagenet"],
        "env": [
            {"name": f"SETTING_{number}", "value": "value-" + "x" * 12}
            for number in range(variables)
        ],
        "resources": {"limits": shape, "requests": shape},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "shm", "mountPath": "/dev/shm"}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip


def _status(life: Life) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": _phase(life), "qosClass": "Guaranteed"}
    if life.stage < BOUND:
        return status
    since = {"PodScheduled": life.bound_us}
    if life.stage >= RUNNING:
        since |= dict.fromkeys(
            ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"),
            life.running_us,
        )
    if life.stage >= CHANGED:
        since["Ready"] = life.changed_us
    status["conditions"] = [
        {
            "type": name, "status": "True", "observedGeneration": 1, "lastProbeTime": None,
            "lastTransitionTime": format_stamp(time_us),
        }
        for name, time_us in since.items()
    ]  # fmt: skip
    if life.stage >= RUNNING:
        status |= {
            "hostIP": "10.1.0.7",
            "hostIPs": [{"ip": "10.1.0.7"}],
            "podIP": "10.2.11.93",
            "podIPs": [{"ip": "10.2.11.93"}],
            "startTime": format_stamp(life.bound_us),
            "containerStatuses": [
                _container_status(life, name, shape)
                for name, shape in (("main", life.job.shape), ("metrics", SIDECAR))
            ],
        }
    return status


def _container_status(life: Life, name: str, shape: dict[str, str]) -> dict[str, Any]:
    state: dict[str, Any] = {"running": {"startedAt": format_stamp(life.running_us)}}
    if _has_finished(life):
        state = {
            "terminated": {
                "exitCode": 0,
                "reason": "Completed",
                "startedAt": format_stamp(life.running_us),
                "finishedAt": format_stamp(life.changed_us),
            }
        }
    return {
        "name": name,
        "state": state,
        "lastState": {},
        "ready": not _has_finished(life),
        "restartCount": 0,
        "image": f"registry.example.com/ml/{name}:2026.07",
        "imageID": f"registry.example.com/ml/{name}@sha256:{'4f' * 32}",
        "containerID": f"containerd://{'a7' * 32}",
        "started": not _has_finished(life),
        "allocatedResources": shape,
        "resources": {"limits": shape, "requests": shape},
        "user": {"linux": {"uid": 1000, "gid": 0, "supplementalGroups": [0, 100]}},
    }


def main() -> int:
    """Print how many events of which kind there are, and how large they are."""
    parser = argparse.ArgumentParser(description="What the synthetic history consists of.")
    parser.add_argument("--events", type=int, default=50_000)
    count = parser.parse_args().events
    kinds: Counter[str] = Counter()
    sizes = []
    for event in events(count):
        kinds[event.type] += 1
        sizes.append(len(event.body))
    long = [len(line) for line in lines(min(count, 10_000))]
    for kind, number in kinds.most_common():
        print(f"{number:>9} {kind}")
    print(
        f"body {statistics.mean(sizes):.0f} B, watch line {statistics.mean(long):.0f} B on average"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

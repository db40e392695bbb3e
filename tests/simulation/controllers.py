"""What a cluster's own parts do: controllers make pods, the scheduler binds them, node agents run and end them.

Level-triggered, as the real ones: each pass compares what is with what should be. Delays are drawn from dice with a
fixed seed, so a day is the same day every time.
"""

import asyncio
import random
from collections.abc import Iterable

from bus.clock import SECOND_US, Clock, parse_stamp
from bus.errors import RequestRefusedError
from tests.simulation.apiserver import CONTROLLERS, ApiServer, Json, Key
from tests.simulation.claims import Claims

PODS = ("/api/v1", "pods")
PASS_SECONDS = 2.0
RUN_SECONDS = "bursar.test/run-seconds"
EXIT_CODE = "bursar.test/exit-code"
STOPPED = "kubeflow-resource-stopped"


class Controllers:
    """:meth:`run` it beside the API server."""

    def __init__(self, api: ApiServer, clock: Clock, seed: int = 16) -> None:
        self._api = api
        self._clock = clock
        self._claims = Claims(api)
        self._dice = random.Random(seed)
        self._ready_us: dict[str, int] = {}
        self._addresses = 0

    async def run(self) -> None:
        """Pass after pass, for ever."""
        while True:
            await self.once()
            await asyncio.sleep(PASS_SECONDS)

    async def once(self) -> None:
        """One pass of everything."""
        for kind in ("StatefulSet", "ReplicaSet"):
            for key, one in self._api.of(kind):
                if not self._has_owner(one):
                    self._api.remove(key)
        for key, one in self._api.of("Notebook"):
            await self._notebook(key, one)
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "Job"):
            for key, one in self._api.of(kind):
                await getattr(self, f"_{kind.lower()}")(key, one)
        self._claims.release()
        for key, pod in self._api.of("Pod"):
            self._pod(key, pod)

    # controllers

    async def _notebook(self, key: Key, one: Json) -> None:
        wanted = 0 if STOPPED in (one["metadata"].get("annotations") or {}) else 1
        set_key = Key("/apis/apps/v1", "statefulsets", key.namespace, key.name)
        template = {**one["spec"]["template"]}
        labels = template.get("metadata", {}).get("labels", {})
        template["metadata"] = {"labels": labels | {"notebook-name": key.name}}
        await self._child(set_key, one, {"replicas": wanted, "template": template})

    async def _deployment(self, key: Key, one: Json) -> None:
        set_key = Key("/apis/apps/v1", "replicasets", key.namespace, f"{key.name}-5d9f8")
        spec = {"replicas": one["spec"]["replicas"], "template": one["spec"]["template"]}
        await self._child(set_key, one, spec)

    async def _child(self, key: Key, owner: Json, spec: Json) -> None:
        found = self._api.objects.get(key)
        if found is None:
            body = {
                "metadata": {"name": key.name, "ownerReferences": [_owner(owner)]},
                "spec": spec,
            }
            await self._make(key, body)
        elif found["spec"]["replicas"] != spec["replicas"]:
            self._api.change(key, spec={"replicas": spec["replicas"]})

    async def _replicaset(self, key: Key, one: Json) -> None:
        await self._replicas(key, one, (_suffixed(key.name, n) for n in range(99)))

    async def _statefulset(self, key: Key, one: Json) -> None:
        await self._replicas(key, one, (f"{key.name}-{n}" for n in range(9)))

    async def _replicas(self, key: Key, one: Json, names: Iterable[str]) -> None:
        mine = [pod_key for pod_key, pod in self._below(one) if not _is_ended(pod)]
        wanted = one["spec"]["replicas"]
        for pod_key in mine[wanted:]:
            self._api.delete(pod_key)
        free = (name for name in names if Key(*PODS, key.namespace, name) not in self._api.objects)
        for _ in range(wanted - len(mine)):
            await self._make_pod(key.namespace, next(free), one)

    async def _job(self, key: Key, one: Json) -> None:
        spec, status = one["spec"], one.get("status", {})
        if status.get("completionTime"):
            gone_us = parse_stamp(status["completionTime"]) + 1800 * SECOND_US
            if self._clock.now_us() > gone_us:
                for pod_key, _ in self._below(one):
                    self._api.remove(pod_key)
                self._api.remove(key)
            return
        if spec.get("suspend"):
            return
        pods = list(self._below(one))
        if not status.get("startTime"):
            self._api.change(key, status={"startTime": self._api.stamp()})
        if len(pods) < status.get("active", 0):
            # As with backoffLimit 0: one pod that is lost fails the Job.
            for pod_key, _ in pods:
                self._api.delete(pod_key)
            said = {"type": "Failed", "status": "True"}
            done = {"completionTime": self._api.stamp(), "conditions": [said], "active": 0}
            self._api.change(key, status=done)
            return
        for number in range(len(pods), spec["parallelism"]):
            await self._make_pod(key.namespace, _suffixed(key.name, number), one)
        made = len(list(self._below(one)))
        if made != status.get("active", 0):
            self._api.change(key, status={"active": made})
        if pods and all(_is_ended(pod) for _, pod in pods):
            failed = any(pod["status"]["phase"] == "Failed" for _, pod in pods)
            said = {"type": "Failed" if failed else "Complete", "status": "True"}
            done = {"completionTime": self._api.stamp(), "conditions": [said], "active": 0}
            self._api.change(key, status=done)

    async def _make_pod(self, namespace: str, name: str, owner: Json) -> None:
        template = owner["spec"]["template"]
        metadata = {
            **template.get("metadata", {}),
            "name": name,
            "ownerReferences": [_owner(owner)],
        }
        body = {
            "metadata": metadata,
            "spec": dict(template["spec"]),
            "status": {"phase": "Pending"},
        }
        key = Key(*PODS, namespace, name)
        if await self._make(key, body):
            await self._claims.make(key, self._api.objects[key])

    async def _make(self, key: Key, body: Json) -> bool:
        version = key.root.removeprefix("/apis/").removeprefix("/api/")
        path = f"{key.root}/namespaces/{key.namespace}/{key.plural}"
        try:
            await self._api.create(path, {"apiVersion": version, **body}, user=CONTROLLERS)
        except RequestRefusedError:
            # As a real controller: again at the next pass.
            return False
        return True

    def _below(self, owner: Json) -> list[tuple[Key, Json]]:
        uid = owner["metadata"]["uid"]
        return [
            (key, pod)
            for key, pod in self._api.of("Pod")
            if any(o["uid"] == uid for o in pod["metadata"].get("ownerReferences", ()))
            and pod["metadata"].get("deletionTimestamp") is None
        ]

    # scheduler and node agents

    def _pod(self, key: Key, pod: Json) -> None:
        now_us, uid = self._clock.now_us(), pod["metadata"]["uid"]
        if not self._has_owner(pod):
            self._api.delete(key)
            pod = self._api.objects.get(key, {})
            if not pod:
                return
        if pod["metadata"].get("deletionTimestamp"):
            if self._due(f"{uid}/end", now_us, 1, 6):
                self._api.remove(key)
        elif not pod["spec"].get("nodeName"):
            if self._due(f"{uid}/bind", now_us, 0, 2):
                self._bind(key, pod)
        elif pod["status"]["phase"] == "Pending":
            if self._due(f"{uid}/run", now_us, 3, 25):
                self._start(key)
        elif pod["status"]["phase"] == "Running":
            self._end(key, pod, now_us)

    def _has_owner(self, one: Json) -> bool:
        for reference in one["metadata"].get("ownerReferences", ()):
            owners = {each["metadata"]["uid"] for _, each in self._api.of(reference["kind"])}
            return reference["uid"] in owners
        return True

    def _due(self, what: str, now_us: int, least: int, most: int) -> bool:
        if what not in self._ready_us:
            self._ready_us[what] = now_us + self._dice.randint(least, most) * SECOND_US
        return now_us >= self._ready_us[what]

    def _bind(self, key: Key, pod: Json) -> None:
        if pod["spec"].get("resourceClaims"):
            node_name = self._claims.node_of(key, pod)
            if node_name is not None:
                self._bound(key, node_name)
            return
        asked, selector = _gpus(pod), pod["spec"].get("nodeSelector") or {}
        for node_key, node in self._api.of("Node"):
            labels = node["metadata"]["labels"]
            room = int(node["status"]["allocatable"].get("nvidia.com/gpu", 0))
            room -= sum(
                _gpus(other)
                for _, other in self._api.of("Pod")
                if other["spec"].get("nodeName") == node_key.name and not _is_ended(other)
            )
            if room >= asked and all(labels.get(k) == v for k, v in selector.items()):
                self._bound(key, node_key.name)
                return

    def _bound(self, key: Key, node: str) -> None:
        said = _condition("PodScheduled", self._api.stamp())
        self._api.change(key, spec={"nodeName": node}, status={"conditions": [said]})

    def _start(self, key: Key) -> None:
        self._addresses += 1
        stamp = self._api.stamp()
        conditions = [*self._api.objects[key]["status"]["conditions"], _condition("Ready", stamp)]
        address = f"10.16.{self._addresses // 250}.{1 + self._addresses % 250}"
        status = {
            "phase": "Running", "startTime": stamp, "podIP": address, "conditions": conditions,
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": stamp}}}],
        }  # fmt: skip
        self._api.change(key, status=status)

    def _end(self, key: Key, pod: Json, now_us: int) -> None:
        annotations = pod["metadata"].get("annotations") or {}
        if RUN_SECONDS not in annotations:
            return
        if (
            now_us
            < parse_stamp(pod["status"]["startTime"]) + int(annotations[RUN_SECONDS]) * SECOND_US
        ):
            return
        code = int(annotations.get(EXIT_CODE, "0"))
        ended = {"exitCode": code, "finishedAt": self._api.stamp()}
        statuses = [{"name": "main", "state": {"terminated": ended}}]
        phase = "Failed" if code else "Succeeded"
        self._api.change(key, status={"phase": phase, "containerStatuses": statuses})


def _owner(one: Json) -> Json:
    return {
        "apiVersion": one["apiVersion"], "kind": one["kind"], "name": one["metadata"]["name"],
        "uid": one["metadata"]["uid"], "controller": True,
    }  # fmt: skip


def _condition(name: str, stamp: str) -> Json:
    return {"type": name, "status": "True", "lastTransitionTime": stamp}


def _is_ended(pod: Json) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def _gpus(pod: Json) -> int:
    return sum(
        int(one["resources"].get("requests", {}).get("nvidia.com/gpu", 0))
        for one in pod["spec"]["containers"]
    )


def _suffixed(name: str, number: int) -> str:
    """A name as a controller makes one up, always the same."""
    letters = "bcdfghjklmnpqrstvwxz2456789"
    dice = random.Random(f"{name}/{number}")
    return f"{name}-{''.join(dice.choice(letters) for _ in range(5))}"

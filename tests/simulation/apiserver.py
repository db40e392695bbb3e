"""An API server in memory: versions, lists, watches, patches with their preconditions, deletion with its grace.

It keeps what :class:`bus.kube.client.KubeCluster` keeps as far as sources, webhook and effectors need it. Writes of governed
kinds are reviewed by ``review`` before they are stored, as a real one asks its webhooks.
"""

import asyncio
import copy
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from bus.clock import SECOND_US, Clock, format_stamp
from bus.errors import ConflictError, NotFoundError, RequestRefusedError
from bus.kube.watch.contract import NotInstalledError, Page

Json = dict[str, Any]

#: Between two bookmarks of a watch.
BOOKMARK_SECONDS = 60.0
CONTROLLERS = "system:serviceaccount:kube-system:controllers"
#: Kinds that this cluster serves, by root and plural.
SERVED = {
    ("/api/v1", "pods"): "Pod",
    ("/api/v1", "nodes"): "Node",
    ("/api/v1", "namespaces"): "Namespace",
    ("/apis/apps/v1", "deployments"): "Deployment",
    ("/apis/apps/v1", "replicasets"): "ReplicaSet",
    ("/apis/apps/v1", "statefulsets"): "StatefulSet",
    ("/apis/apps/v1", "daemonsets"): "DaemonSet",
    ("/apis/batch/v1", "jobs"): "Job",
    ("/apis/batch/v1", "cronjobs"): "CronJob",
    ("/apis/kubeflow.org/v1", "notebooks"): "Notebook",
    ("/apis/scheduling.k8s.io/v1", "priorityclasses"): "PriorityClass",
    ("/apis/bursar.io/v1alpha1", "bizgroupresourcequotas"): "BizGroupResourceQuota",
    ("/apis/resource.k8s.io/v1", "resourceclaims"): "ResourceClaim",
    ("/apis/resource.k8s.io/v1", "resourceclaimtemplates"): "ResourceClaimTemplate",
    ("/apis/resource.k8s.io/v1", "resourceslices"): "ResourceSlice",
    ("/apis/resource.k8s.io/v1", "deviceclasses"): "DeviceClass",
    ("/apis/events.k8s.io/v1", "events"): "Event",
}


class Key(NamedTuple):
    """Which object: where its kind is served, and its name there."""

    root: str
    plural: str
    namespace: str
    name: str


class Change(NamedTuple):
    """A write as a webhook is asked about it. ``old`` None = a create."""

    key: Key
    subresource: str
    old: Json | None
    new: Json
    user: str


class RefusedError(Exception):
    """A webhook refused the write."""


Review = Callable[[Change], Awaitable[Json]]


class ApiServer:
    """``review`` answers with the object as it shall be stored, or raises RefusedError."""

    def __init__(self, clock: Clock) -> None:
        self.objects: dict[Key, Json] = {}
        self.review: Review | None = None
        self.refusals: list[str] = []
        self._clock = clock
        self._version = 100
        self._made = 0
        self._log: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
        self._moved = asyncio.Event()

    # what an adapter does

    async def page(
        self, path: str, *, limit: int, following: str = "", metadata_only: bool = False
    ) -> Page:
        kind = self._kind(path)
        found = [one for key, one in self.objects.items() if key[:2] == kind]
        if metadata_only:
            found = [{"metadata": one["metadata"]} for one in found]
        items = [json.dumps(one).encode() for one in found]
        return Page(items, str(self._version))

    async def watch(self, path: str, *, version: str) -> AsyncIterator[list[bytes]]:
        kind, after = self._kind(path), int(version)
        log, loop = self._log.setdefault(kind, []), asyncio.get_running_loop()
        bookmark_at = loop.time() + BOOKMARK_SECONDS
        while True:
            moved = self._moved
            found = [line for number, line in log if number > after]
            if found:
                after = log[-1][0]
                yield found
                continue
            try:
                # Other kinds change, too: a quiet one is told of all the same.
                async with asyncio.timeout_at(bookmark_at):
                    await moved.wait()
            except TimeoutError:
                bookmark_at = loop.time() + BOOKMARK_SECONDS
                after = max(after, self._version)
                marked = {"kind": SERVED[kind], "metadata": {"resourceVersion": str(after)}}
                yield [json.dumps({"type": "BOOKMARK", "object": marked}).encode()]

    async def get(self, path: str) -> Json:
        return copy.deepcopy(self._found(_key(path)[0]))

    async def create(self, path: str, body: Json, *, user: str = "bursar") -> Json:
        kind, namespace = self._kind(path), _namespace(path)
        key = Key(*kind, namespace, body["metadata"]["name"])
        if key in self.objects:
            raise ConflictError("it is there already", path=path)
        self._made += 1
        made = copy.deepcopy(dict(body)) | {"kind": SERVED[kind]}
        made["metadata"] |= {
            "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{key}/{self._made}")),
            "creationTimestamp": self.stamp(),
            **({"namespace": namespace} if namespace else {}),
        }
        made = await self._reviewed(Change(key, "", None, made, user))
        return self._store(key, made, "ADDED")

    async def merge(self, path: str, body: Json, *, user: str = "bursar") -> Json:
        key, subresource = _key(path)
        old = self._found(key)
        wanted = body.get("metadata") or {}
        for name in ("uid", "resourceVersion"):
            if wanted.get(name, old["metadata"][name]) != old["metadata"][name]:
                raise ConflictError("it changed", path=path)
        return await self._write(key, subresource, old, _merged(old, body), user)

    async def apply(self, path: str, body: Json, **_: Any) -> Json:
        return await self.merge(path, body)

    async def patch(self, path: str, operations: Any, *, user: str = "bursar") -> Json:
        key, subresource = _key(path)
        old = self._found(key)
        return await self._write(key, subresource, old, patched(old, operations), user)

    async def evict(self, namespace: str, pod: str, *, uid: str) -> Json:
        key = Key("/api/v1", "pods", namespace, pod)
        found = copy.deepcopy(self._found(key))
        if found["metadata"]["uid"] != uid:
            raise ConflictError("another pod has this name", pod=pod)
        said = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        said["lastTransitionTime"] = self.stamp()
        found["status"].setdefault("conditions", []).append(said)
        self._store(key, found, "MODIFIED")
        self.delete(key)
        return {}

    # what the cluster itself does

    def stamp(self, later_seconds: float = 0) -> str:
        """Now, as the API server writes it: whole seconds."""
        now_s = int(self._clock.now_us() // SECOND_US + later_seconds)
        return format_stamp(now_s * SECOND_US)

    def of(self, kind: str) -> Iterator[tuple[Key, Json]]:
        """Every object of a kind, in the order of creation."""
        return (
            (key, one)
            for key, one in list(self.objects.items())
            if SERVED[(key.root, key.plural)] == kind
        )

    def deleted(self, key: Key) -> bytes:
        """The object as the newest DELETED line of a watch showed it."""
        for _, line in reversed(self._log[(key.root, key.plural)]):
            said = json.loads(line)
            metadata = said["object"]["metadata"]
            if said["type"] == "DELETED" and metadata["name"] == key.name:
                return json.dumps(said["object"]).encode()
        raise NotFoundError(path=str(key))

    def change(self, key: Key, **parts: Any) -> None:
        """What a controller writes without being reviewed: status, conditions, a node's name."""
        self._store(key, _merged(self.objects[key], parts), "MODIFIED")

    def delete(self, key: Key, grace_seconds: int = 30) -> None:
        """A pod on a node goes on for its grace period, until :meth:`remove`; everything else is gone."""
        found = copy.deepcopy(self.objects[key])
        if key.plural != "pods" or not found["spec"].get("nodeName"):
            return self.remove(key)
        if "deletionTimestamp" not in found["metadata"]:
            found["metadata"] |= {
                "deletionTimestamp": self.stamp(grace_seconds),
                "deletionGracePeriodSeconds": grace_seconds,
            }
            self._store(key, found, "MODIFIED")
        return None

    def remove(self, key: Key) -> None:
        """The end: MODIFIED with the stamp of the end, then DELETED with the same."""
        found = copy.deepcopy(self.objects[key])
        if key.plural == "pods":
            end = {"deletionTimestamp": self.stamp(), "deletionGracePeriodSeconds": 0}
            found["metadata"] |= end
            self._store(key, found, "MODIFIED")
        del self.objects[key]
        self._tell(key, found, "DELETED")

    # inside

    async def _write(self, key: Key, subresource: str, old: Json, new: Json, user: str) -> Json:
        if subresource != "status":
            new = await self._reviewed(Change(key, subresource, old, new, user))
        return copy.deepcopy(self._store(key, new, "MODIFIED"))

    async def _reviewed(self, change: Change) -> Json:
        if self.review is None:
            return change.new
        try:
            return await self.review(change)
        except RefusedError as error:
            self.refusals.append(str(error))
            raise RequestRefusedError(status=403, reason=str(error)) from error

    def _store(self, key: Key, new: Json, change: str) -> Json:
        self.objects[key] = new
        self._tell(key, new, change)
        return new

    def _tell(self, key: Key, new: Json, change: str) -> None:
        self._version += 1
        new["metadata"]["resourceVersion"] = str(self._version)
        line = json.dumps({"type": change, "object": new}).encode()
        self._log.setdefault((key.root, key.plural), []).append((self._version, line))
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _found(self, key: Key) -> Json:
        if key not in self.objects:
            raise NotFoundError(path=str(key))
        return self.objects[key]

    def _kind(self, path: str) -> tuple[str, str]:
        parts = path.strip("/").split("/")
        depth = 2 if parts[0] == "api" else 3
        kind = ("/" + "/".join(parts[:depth]), parts[-1])
        if kind not in SERVED:
            raise NotInstalledError(resource=path)
        return kind


def patched(old: Json, operations: Any) -> Json:
    """JSON Patch (RFC 6902). Raises RequestRefusedError 422 where a test or a path does not hold."""
    new = copy.deepcopy(old)
    for one in operations:
        *way, last = (s.replace("~1", "/").replace("~0", "~") for s in one["path"].split("/")[1:])
        inner = new
        for step in way:
            inner = inner.setdefault(step, {}) if one["op"] == "add" else inner.get(step, {})
        is_there = last in inner
        if one["op"] in ("remove", "replace", "test") and not is_there:
            raise RequestRefusedError(status=422, reason=f"{one['path']} is not there")
        if one["op"] == "test" and inner[last] != one["value"]:
            raise RequestRefusedError(status=422, reason=f"{one['path']} is {inner[last]!r}")
        if one["op"] == "remove":
            del inner[last]
        elif one["op"] in ("add", "replace"):
            inner[last] = one["value"]
    return new


def _merged(old: Json, body: Json) -> Json:
    """JSON merge patch (RFC 7386)."""
    new = copy.deepcopy(old)
    for name, value in body.items():
        if value is None:
            new.pop(name, None)
        elif isinstance(value, dict):
            inner = new.get(name)
            new[name] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            new[name] = copy.deepcopy(value)
    return new


def _namespace(path: str) -> str:
    parts = path.strip("/").split("/")
    return parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else ""


def _key(path: str) -> tuple[Key, str]:
    parts = path.strip("/").split("/")
    depth = 2 if parts[0] == "api" else 3
    root, rest = "/" + "/".join(parts[:depth]), parts[depth:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return Key(root, rest[0], namespace, rest[1]), (rest[2] if len(rest) > 2 else "")

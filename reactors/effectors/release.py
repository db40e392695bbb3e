"""ADAPTER: starts a waiting workload, or stops one to wait again: one write, and only if it is still the same workload.

The patch itself tests the basis of the decision: the uid, our annotation, the flag. (Refused: a resourceVersion.
Its controller writes the status of a suspended Job at any time, so most first attempts would meet a conflict.
Its request may have changed too, but this very write brings it to the validating webhook.) The same tests refuse
a second write.

Source: docs/architecture.md (effectors).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol

import msgspec

from bus.crashpoints import crashpoint
from bus.errors import ConflictError, NotFoundError, PermissionDeniedError, RequestRefusedError
from bus.kube.kinds import QUEUE_ANNOTATION, Kind

Operations = list[dict[str, Any]]

#: ``done``; ``superseded``: it was deleted, or does not wait any more;
#: ``refused``: another webhook or policy refuses it for now.
Result = Literal["done", "superseded", "refused"]

#: Status of a JSON Patch with a failed ``test``.
UNPROCESSABLE = 422


class Patches(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def patch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> Any:
        """JSON Patch of the object at ``path``."""
        ...

    async def merge(self, path: str, body: Mapping[str, Any]) -> Any:
        """JSON merge patch of the object at ``path``; a uid in it is a precondition."""
        ...


class ReleaseOutcome(msgspec.Struct, frozen=True):
    """The result of one attempt."""

    result: Result
    message: str = ""


class Starter:
    """Starts held workloads of one cluster, and holds them again."""

    def __init__(self, cluster: Patches) -> None:
        self._cluster = cluster

    async def start(self, kind: Kind, namespace: str, name: str, uid: str) -> ReleaseOutcome:
        """Unsuspend one. Raises ClusterUnavailableError: try again, it may have been done."""
        path = object_path(kind, namespace, name)
        return await self._attempt(partial(self._cluster.patch, path, started(kind, uid)))

    async def hold(
        self, kind: Kind, namespace: str, name: str, uid: str, quota: str
    ) -> ReleaseOutcome:
        """Suspend a running workload, to wait in a queue. Raises ClusterUnavailableError."""
        path = object_path(kind, namespace, name)
        return await self._attempt(partial(self._cluster.merge, path, stopped(kind, uid, quota)))

    async def _attempt(self, write: Callable[[], Awaitable[Any]]) -> ReleaseOutcome:
        crashpoint("release.before_patch")
        try:
            await write()
        except (NotFoundError, ConflictError) as error:
            return ReleaseOutcome("superseded", str(error))
        except RequestRefusedError as error:
            result: Result = "superseded" if error.status == UNPROCESSABLE else "refused"
            return ReleaseOutcome(result, str(error))
        except PermissionDeniedError as error:
            return ReleaseOutcome("refused", str(error))
        crashpoint("release.after_patch")
        return ReleaseOutcome("done")


def started(kind: Kind, uid: str) -> Operations:
    """JSON Patch to unsuspend the workload with this uid, if it waits in a queue."""
    flag = pointer(tuple(kind.suspend.split(".")))
    mark = pointer(("metadata", "annotations", QUEUE_ANNOTATION))
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": flag, "value": True},
        # An absent value cannot be removed: this tests the annotation, too.
        {"op": "remove", "path": mark},
        {"op": "replace", "path": flag, "value": False},
    ]


def stopped(kind: Kind, uid: str, quota: str) -> dict[str, Any]:
    """JSON merge patch to suspend the workload with this uid, to wait in this quota's queue."""
    body: dict[str, Any] = {"metadata": {"uid": uid, "annotations": {QUEUE_ANNOTATION: quota}}}
    *way, flag = kind.suspend.split(".")
    inner = body
    for step in way:
        inner = inner.setdefault(step, {})
    inner[flag] = True
    return body


def pointer(path: tuple[str, ...]) -> str:
    """A JSON Pointer (RFC 6901)."""
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)


def object_path(kind: Kind, namespace: str, name: str) -> str:
    """Where an API server serves one object of a kind."""
    group = f"/apis/{kind.group}" if kind.group else "/api"
    return f"{group}/{kind.versions[0]}/namespaces/{namespace}/{kind.resource}/{name}"

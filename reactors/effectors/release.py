"""ADAPTER: starts a workload that waited, or has it wait again: one write, and only if it is still the one that was decided on.

What the decision rests on is tested in the patch itself: the uid, our annotation, the flag. (Refused: a resourceVersion.
Its controller writes the status of a suspended Job at any time, so most first attempts would meet a conflict;
what it asks for may have changed too, and is asked of the validating webhook by this very write.) Doing it twice
is refused by the same tests.

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

#: ``done``; ``superseded``: it is gone, or does not wait any more; ``refused``: somebody does not allow it, for now.
Result = Literal["done", "superseded", "refused"]

#: Status of a JSON Patch whose ``test`` fails.
UNPROCESSABLE = 422


class Patches(Protocol):
    """The part of :class:`bus.kube.client.KubeCluster` that is needed here, with its errors."""

    async def patch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> Any:
        """JSON Patch of the object at ``path``."""
        ...

    async def merge(self, path: str, body: Mapping[str, Any]) -> Any:
        """JSON merge patch of the object at ``path``; a uid in it is a precondition."""
        ...


class Outcome(msgspec.Struct, frozen=True):
    """What became of one attempt."""

    result: Result
    message: str = ""


class Starter:
    """Starts held workloads of one cluster, and holds them again."""

    def __init__(self, cluster: Patches) -> None:
        self._cluster = cluster

    async def start(self, kind: Kind, namespace: str, name: str, uid: str) -> Outcome:
        """Unsuspend one. Raises ClusterUnavailableError: try again, it may have been done."""
        path = object_path(kind, namespace, name)
        return await self._attempt(partial(self._cluster.patch, path, started(kind, uid)))

    async def hold(self, kind: Kind, namespace: str, name: str, uid: str, quota: str) -> Outcome:
        """Suspend one that runs, to wait in a queue. Raises ClusterUnavailableError."""
        path = object_path(kind, namespace, name)
        return await self._attempt(partial(self._cluster.merge, path, stopped(kind, uid, quota)))

    async def _attempt(self, write: Callable[[], Awaitable[Any]]) -> Outcome:
        crashpoint("release.before_patch")
        try:
            await write()
        except (NotFoundError, ConflictError) as error:
            return Outcome("superseded", str(error))
        except RequestRefusedError as error:
            result: Result = "superseded" if error.status == UNPROCESSABLE else "refused"
            return Outcome(result, str(error))
        except PermissionDeniedError as error:
            return Outcome("refused", str(error))
        crashpoint("release.after_patch")
        return Outcome("done")


def started(kind: Kind, uid: str) -> Operations:
    """JSON Patch that unsuspends the one with this uid, if it waits in a queue."""
    flag = pointer(tuple(kind.suspend.split(".")))
    mark = pointer(("metadata", "annotations", QUEUE_ANNOTATION))
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": flag, "value": True},
        # What is not there cannot be removed: this tests the annotation, too.
        {"op": "remove", "path": mark},
        {"op": "replace", "path": flag, "value": False},
    ]


def stopped(kind: Kind, uid: str, quota: str) -> dict[str, Any]:
    """JSON merge patch that suspends the one with this uid, to wait in this quota's queue."""
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

"""A cluster's API server: lists and watches for the sources, single objects for the reactors.

An object is addressed by its path (``/apis/apps/v1/namespaces/team/deployments/train``), and travels as decoded
JSON. A write is never retried here: only its caller knows whether it is still needed. Its errors:

- ConflictError (409): the object has another uid or version, exists already, or is another
  manager's. Read again, decide again.
- NotFoundError (404): the object, or its whole kind.
- RequestRefusedError (400, 413, 422 ...): never acceptable, with the API server's words.
- PermissionDeniedError (401, 403), also a quota's or a webhook's veto: ``message`` has the reason.
- ClusterUnavailableError (429, 5xx, a broken connection): try again after ``delay_seconds``;
  whether it was done may be unknown.

Source: Kubernetes API concepts, "Server-side apply", "Delete options", "API-initiated eviction".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp
import msgspec

from bus.clock import ServerClock, SystemClock
from bus.errors import BursarError
from bus.kube import MANAGER
from bus.kube.client import answers
from bus.kube.client.access import Access, Credentials, open_api
from bus.kube.client.answers import Json
from bus.kube.client.connections import Connections
from bus.kube.client.refusals import declined, resource_at
from bus.kube.client.requests import (
    BROKEN,
    JSON,
    METADATA,
    PAGE,
    WATCH,
    Query,
    Requests,
    retry_after,
    unreachable,
    whole,
)
from bus.kube.watch.contract import GoneError, Page, refusal, resource_of
from bus.kube.watch.records import LARGEST_RECORD

#: Longest assembled line of a watch; a longer one is cut, and then refused by its reader.
LONGEST_LINE = LARGEST_RECORD + 4096

#: Larger pages are cut in a thread. One with an odd object may take seconds, and reviews wait in the same loop.
LARGE_PAGE = 1024 * 1024

_TOO_LARGE_VERSION = b"Too large resource version"


async def connect(
    access: Access, *, trust_env: bool = False, clock: ServerClock | None = None
) -> KubeCluster:
    """The cluster at ``access``. Reads credentials; the first request makes the connection.

    Its answers measure ``clock``.

    Raises PermissionDeniedError with the reason when the credentials are unreadable.
    """
    found = await open_api(access, trust_env=trust_env)
    return KubeCluster(*found, clock or ServerClock(SystemClock()))


class KubeCluster:
    """A cluster's API server. Implements :class:`bus.kube.watch.contract.Cluster`."""

    def __init__(self, api: Any, credentials: Credentials, clock: ServerClock) -> None:
        self._requests = Requests(api, credentials)
        self._connections = Connections(api, credentials)
        #: The API server's, by its answers to lists and watches.
        self.clock = clock
        #: Returns when this process may still write. It may raise, and then nothing is sent.
        self.fence: Callable[[], Awaitable[None]] | None = None

    async def close(self) -> None:
        """Let go of all connections. Closing twice is fine."""
        self._connections.close()
        await self._requests.close()

    async def page(
        self, path: str, *, limit: int, following: str = "", metadata_only: bool = False
    ) -> Page:
        """One page of all objects under ``path``. See :class:`bus.kube.watch.contract.Cluster`."""
        query = [("limit", str(limit))] if limit else []
        if following:
            query.append(("continue", following))
        accept = METADATA if metadata_only else JSON
        try:
            response = await self._get(
                path, "list", query, PAGE, resumed=bool(following), accept=accept
            )
            async with response:
                raw = await whole(response)
        except BROKEN as error:
            raise unreachable(error, "list", path) from error
        if len(raw) > LARGE_PAGE:
            return await asyncio.to_thread(answers.page, raw)
        return answers.page(raw)

    async def watch(self, path: str, *, version: str) -> AsyncGenerator[list[bytes]]:
        """Lines of changes after ``version``. See :class:`bus.kube.watch.contract.Cluster`."""
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", version)]
        try:
            response = await self._get(path, "watch", query, WATCH, resumed=True)
            try:
                rest = b""
                async for chunk in response.content.iter_any():
                    if b"\n" not in chunk:
                        rest = (rest + chunk)[:LONGEST_LINE]
                        continue
                    *lines, rest = (rest + chunk).split(b"\n")
                    with _unread(response):
                        yield lines
            finally:
                _abort(response)
        except BROKEN as error:
            raise unreachable(error, "watch", path) from error

    async def get(self, path: str) -> Json:
        """The object at ``path``, as the API server has it now."""
        return await self._object("GET", "get", path)

    async def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Json:
        """A new object in the collection at ``path``; the object as it was stored.

        With ``dry_run`` everything is done but the writing, reviews included.
        """
        query = [("fieldManager", MANAGER)]
        if dry_run:
            query.append(("dryRun", "All"))
        return await self._object("POST", "create", path, body, query=query, is_one_of_many=True)

    async def ask(self, path: str, body: Mapping[str, Any]) -> Json:
        """The answer of a service behind the API server's proxy; ``path`` may have a query."""
        return await self._object("POST", "create", path, body)

    async def apply(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        manager: str = MANAGER,
        force: bool = True,
        dry_run: bool = False,
    ) -> Json:
        """Server-side apply: ``body`` holds all fields of ``manager`` in the object at ``path``.

        Its former fields missing in ``body`` are given up. A missing object is created, unless the metadata has a
        ``uid`` (ConflictError) or ``path`` ends in ``/status`` (NotFoundError). A ``resourceVersion`` is a
        precondition; below ``/status`` of a custom object it is the only one, a ``uid`` is overwritten there.
        Without ``force`` a field of another manager is a ConflictError. With ``dry_run`` nothing is written.
        """
        query = [("fieldManager", manager), ("force", str(force).lower())]
        query += [("dryRun", "All")] * dry_run
        kind = "application/apply-patch+yaml"
        return await self._object("PATCH", "patch", path, body, query=query, content_type=kind)

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """JSON merge patch: the named fields are set, those given as None are removed.

        A ``resourceVersion`` or ``uid`` in its metadata is a precondition.
        """
        query = [("fieldManager", MANAGER)]
        kind = "application/merge-patch+json"
        return await self._object("PATCH", "patch", path, body, query=query, content_type=kind)

    async def patch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> Json:
        """JSON Patch (RFC 6902): all operations or none. A failed ``test`` is a RequestRefusedError of status 422."""
        query = [("fieldManager", MANAGER)]
        kind = "application/json-patch+json"
        return await self._object(
            "PATCH", "patch", path, operations, query=query, content_type=kind
        )

    async def delete(
        self,
        path: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> Json:
        """Delete the object at ``path`` if it is still the one with ``uid`` (and in this version).

        Gives the object, where it goes on for its grace period, else the API server's Status.
        """
        return await self._object(
            "DELETE", "delete", path, _deletion(uid, resource_version, grace_seconds)
        )

    async def evict(self, namespace: str, pod: str, *, uid: str) -> Json:
        """Ask for the pod's end through the Eviction subresource, if it still has this uid.

        An exhausted disruption budget is ClusterUnavailableError with status 429 and the API server's delay.
        """
        return await self._object(
            "POST",
            "create",
            f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod, "namespace": namespace},
                "deleteOptions": _deletion(uid, None, None),
            },
        )

    async def bind(
        self, namespace: str, pod: str, *, uid: str, node: str, annotations: Mapping[str, str]
    ) -> None:
        """Give the pod with this uid its node, and ``annotations`` in the same write.

        The API server checks neither the existence of the node, nor the room there. ConflictError for a pod already
        bound, with another uid, ending, or with scheduling gates.
        """
        metadata = {"name": pod, "namespace": namespace, "uid": uid, "annotations": annotations}
        await self._object(
            "POST", "create", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding",
            {
                "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            },
            is_one_of_many=True,
        )  # fmt: skip

    async def _get(
        self,
        path: str,
        verb: str,
        query: Query,
        timeout: aiohttp.ClientTimeout,
        *,
        resumed: bool,
        accept: str = JSON,
    ) -> aiohttp.ClientResponse:
        """A response of status 200 to a list or a watch."""
        sent_us = self.clock.own_us()
        where, _, selected = path.partition("?")
        query = [*query, *parse_qsl(selected)]
        response, body = await self._requests.ask("GET", where, query, timeout, accept=accept)
        self.clock.answered(response.headers.get("Date"), sent_us)
        if response.status == 200:
            return response
        # A restored store is older: our version lies in its future.
        if response.status == 504 and _TOO_LARGE_VERSION in body:
            raise GoneError(status=504)
        raise refusal(
            response.status,
            verb=verb,
            resource=resource_of(path),
            delay_seconds=retry_after(response.headers.get("Retry-After")),
            resumed=resumed,
        )

    async def _object(
        self,
        method: str,
        verb: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        query: Query | None = None,
        content_type: str = "application/json",
        is_one_of_many: bool = False,
    ) -> Json:
        if self.fence is not None and method != "GET":
            await self.fence()
        if is_one_of_many and self._connections.is_direct:
            return await self._posted(verb, path, query or [], body)
        try:
            response, content = await self._requests.ask(
                method, path, query or [], PAGE, body=body, content_type=content_type
            )
            async with response:
                if response.status >= 300:
                    raise _declined(response, content, verb, path)
                raw = await whole(response)
        except BROKEN as error:
            raise unreachable(error, verb, path) from error
        return answers.json(raw)

    async def _posted(self, verb: str, path: str, query: Query, body: object) -> Json:
        """The same by a connection for many small writes."""
        whole_path = f"{path}?{urlencode(query)}" if query else path
        try:
            answer = await self._connections.post(whole_path, msgspec.json.encode(body))
        except OSError as error:
            raise unreachable(error, verb, path) from error
        if answer.status >= 300:
            raise declined(
                answer.status, answer.body, request=f"{verb} {resource_at(path)}",
                delay_seconds=retry_after(answer.retry_after),
            )  # fmt: skip
        return answers.json(answer.body)


def _declined(response: aiohttp.ClientResponse, body: bytes, verb: str, path: str) -> BursarError:
    delay = retry_after(response.headers.get("Retry-After"))
    return declined(
        response.status, body, request=f"{verb} {resource_at(path)}", delay_seconds=delay
    )


def _deletion(uid: str, resource_version: str | None, grace_seconds: int | None) -> Json:
    preconditions = {"uid": uid}
    if resource_version is not None:
        preconditions["resourceVersion"] = resource_version
    options: Json = {"preconditions": preconditions}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options


@contextmanager
def _unread(response: aiohttp.ClientResponse) -> Iterator[None]:
    """Leaves new data in the socket meanwhile: one wake-up for all of it costs less than one for each event.

    Works below TLS, as asyncio's own pause goes on reading and decrypting; with unknown layers it uses asyncio's
    pause. Saves a third of the CPU of a busy watch.
    """
    transport: Any = response.connection.transport if response.connection else None
    if transport is None:
        yield
        return
    socket = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None) or transport
    socket.pause_reading()
    try:
        yield
    finally:
        socket.resume_reading()


def _abort(response: aiohttp.ClientResponse) -> None:
    """Ends a connection still in use: a farewell would wait for a possibly frozen server."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()

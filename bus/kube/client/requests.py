"""One request to an API server and its answer, whatever status it has; credentials are renewed here.

A connection that breaks leaves the outcome of a write unknown. So writes are safe to repeat by their content: a
uid, a resourceVersion, or all fields of the manager.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from bus.errors import ClusterUnavailableError
from bus.kube.client.access import Credentials
from bus.kube.client.refusals import resource_at
from bus.kube.watch.contract import AnswerTooLargeError

#: Largest answer in memory; a page of 500 pods is 2 to 5 MiB.
LARGEST_PAGE = 256 * 1024 * 1024
#: How much of a refusal is read: a message may list every wrong field of an object.
LARGEST_REFUSAL = 256 * 1024
#: Longest wait for a connection and for one page or object.
CONNECT_SECONDS = 10.0
PAGE_SECONDS = 60.0
#: Longest wait for an answer to begin.
ANSWER_SECONDS = 30.0

PAGE = aiohttp.ClientTimeout(total=PAGE_SECONDS, sock_connect=CONNECT_SECONDS)
# A watch is silent without events: the loop limits the silence, not the adapter.
WATCH = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)

#: Errors of a failed connection.
BROKEN = (aiohttp.ClientError, OSError, TimeoutError)

Query = list[tuple[str, str]]

JSON = "application/json"
#: Metadata of objects; a server without that form gives the objects.
METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


class Requests:
    """Requests of one user over the library's session."""

    def __init__(self, api: Any, credentials: Credentials) -> None:
        self._api = api
        self._credentials = credentials

    async def close(self) -> None:
        """Let go of all connections. Closing twice is fine."""
        await self._api.close()
        # Aborted connections are taken down in the loop's next round.
        await asyncio.sleep(0)

    async def ask(
        self,
        method: str,
        path: str,
        query: Query,
        timeout: aiohttp.ClientTimeout,
        *,
        body: object = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """The answer and, unless its status is 2xx, the start of its text; the caller closes a 2xx.

        A 401 is asked once more with credentials read anew. Raises one of ``BROKEN``.
        """
        content = b""
        for renewed in (False, True):
            # A paused server accepts connections and says nothing on them.
            async with asyncio.timeout(ANSWER_SECONDS):
                headers = {"Accept": accept, "Content-Type": content_type}
                response = await self._send(method, path, query, timeout, body, headers)
            if response.status < 300:
                break
            async with response:
                content = await _beginning(response)
            if response.status != 401 or renewed:
                break
            await self._credentials.renew(self._api.configuration)
        return response, content

    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        timeout: aiohttp.ClientTimeout,
        body: object,
        headers: dict[str, str],
    ) -> aiohttp.ClientResponse:
        request = await self._api.param_serialize(
            method,
            path,
            query_params=list(query),
            # Compressed lists cost 25 us an object to unpack, more than their translation.
            header_params={**headers, "Accept-Encoding": "identity"},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = await self._api.call_api(*request, _request_timeout=timeout)
        except RuntimeError as error:
            # Errors of uvloop for a closed connection, or for a reused descriptor, as after a server's death.
            if "Transport" not in str(error):
                raise
            raise ConnectionResetError(str(error)) from error
        response: aiohttp.ClientResponse = answer.response
        return response


def unreachable(error: Exception, verb: str, path: str) -> ClusterUnavailableError:
    """The connection failed: ``verb`` may be tried again, and may have been done already."""
    return ClusterUnavailableError(
        request=f"{verb} {resource_at(path)}", reason=f"{type(error).__name__}: {error}"[:200]
    )


async def whole(response: aiohttp.ClientResponse) -> bytes:
    """All of an answer. Raises AnswerTooLargeError for one above the limit."""
    raw = bytearray()
    async for chunk in response.content.iter_any():
        raw += chunk
        if len(raw) > LARGEST_PAGE:
            raise AnswerTooLargeError(limit=LARGEST_PAGE)
    return bytes(raw)


def retry_after(text: str | None) -> float:
    """Seconds of a Retry-After header; one second for a date or anything else, never sent by an API server."""
    if text and text.isascii() and text.isdigit() and len(text) <= 6:
        return float(text)
    return 1.0


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The start of a refusal's text: enough for its reason, however much is sent."""
    raw = bytearray()
    try:
        async with asyncio.timeout(5):
            async for chunk in response.content.iter_any():
                raw += chunk
                if len(raw) >= LARGEST_REFUSAL:
                    break
    except (aiohttp.ClientError, OSError):
        pass
    return bytes(raw[:LARGEST_REFUSAL])

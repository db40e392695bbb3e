"""The door to a Kubernetes API server: the only import of the client library.

The library's models and its watch are not used: models drop what they do not know, and the watch
loses deletes. What is used of it is what is hard to get right elsewhere: kubeconfig files,
credentials and their renewal, TLS. Lists come as pages of raw objects, watches as raw lines, both
through :class:`bus.sources.contract.Cluster`.

Proxies of the environment are not asked unless told so: an API server is reached directly or as its
kubeconfig says.

Source: Kubernetes API concepts; ``reliability.md`` section 0 (9), A3, A4, A29, P24;
``performance.md``, "Against a real API server".
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
from kubernetes.aio import client, config
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from bus.errors import (
    ClusterUnavailableError,
    MalformedJsonError,
    ObservationError,
    PermissionDeniedError,
)
from bus.sources.contract import GoneError, Page, refusal, resource_of

#: Largest page that is read into memory; 500 pods are 2 to 5 MiB.
LARGEST_PAGE = 256 * 1024 * 1024
#: Longest line of a watch that is put together; a longer one is cut, and then refused by who reads
#: it.
LONGEST_LINE = 4 * 1024 * 1024 + 4096
#: Longest wait for a connection and for one page.
CONNECT_SECONDS = 10.0
PAGE_SECONDS = 60.0
#: Longest wait for an answer to begin.
ANSWER_SECONDS = 30.0
#: Credentials that renew themselves outside (exec plugins, token files) are read again after this
#: time.
RENEW_SECONDS = 60.0

_PAGE = aiohttp.ClientTimeout(total=PAGE_SECONDS, sock_connect=CONNECT_SECONDS)
# A watch is silent for as long as nothing happens: how long that may be is the loop's question, not
# the door's.
_WATCH = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
#: What the library raises for a file that is no kubeconfig, or one whose parts cannot be read.
_UNUSABLE = (
    config.ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)
_TOO_LARGE_VERSION = b"Too large resource version"


class Access(msgspec.Struct, frozen=True):
    """Where a cluster is found: a kubeconfig (path or list of paths), or the service account of
    this pod.
    """

    kubeconfig: str = ""
    #: A context of the kubeconfig; "" = its current one.
    context: str = ""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_list_decoder = msgspec.json.Decoder(_List)


def discover(
    environ: Mapping[str, str], kubeconfig: Path | str = "", context: str = ""
) -> Access | None:
    """Where a cluster is, None where nothing points to one. Opens no connection.

    In this order: ``kubeconfig`` (taken as it is, so that a wrong path is an error later and not
    another cluster), the files in ``KUBECONFIG``, ``~/.kube/config``, the service account of this
    pod.
    """
    if kubeconfig:
        return Access(str(kubeconfig), context)
    listed = environ.get("KUBECONFIG", "")
    if any(Path(path).expanduser().is_file() for path in listed.split(os.pathsep) if path):
        return Access(listed, context)
    home = Path(environ["HOME"]) / ".kube" / "config" if environ.get("HOME") else None
    if not listed and home is not None and home.is_file():
        return Access(str(home), context)
    named = environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT")
    if named and Path(SERVICE_TOKEN_FILENAME).is_file():
        return Access()
    return None


async def connect(access: Access, *, trust_env: bool = False) -> KubeCluster:
    """The cluster at ``access``. Reads credentials; the first request makes the connection.

    Raises PermissionDeniedError when the credentials cannot be read, with what is wrong with them.
    """
    credentials = _Credentials(access)
    try:
        configuration = client.Configuration(client_session_kwargs={"trust_env": trust_env})
        await credentials.load(configuration)
        return KubeCluster(client.ApiClient(configuration), credentials)
    except _UNUSABLE as error:
        # Other texts may quote the file, and with it a token.
        told = isinstance(error, config.ConfigException)
        raise PermissionDeniedError(
            "the credentials cannot be used",
            kubeconfig=access.kubeconfig or "service account",
            reason=str(error)[:200] if told else type(error).__name__,
        ) from None


class _Credentials:
    """Reads credentials, and reads them again when they are old or refused."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._renewed = 0.0

    async def load(self, configuration: Any) -> None:
        if self._access.kubeconfig:
            load: Any = config.load_kube_config
            await load(
                config_file=self._access.kubeconfig,
                context=self._access.context or None,
                client_configuration=configuration,
                persist_config=False,
            )
            configuration.refresh_api_key_hook = self._refresh
        else:
            # The library's own hook reads the mounted token again every minute.
            loader: Any = InClusterConfigLoader
            loader(SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME).load_and_set(configuration)
        self._renewed = asyncio.get_running_loop().time()

    async def _refresh(self, configuration: Any) -> None:
        if asyncio.get_running_loop().time() - self._renewed >= RENEW_SECONDS:
            await self.renew(configuration)

    async def renew(self, configuration: Any) -> None:
        """Reads the credentials again; the old ones stay where that fails, so that the server
        says what is wrong.
        """
        fresh = client.Configuration()
        try:
            await self.load(fresh)
        except _UNUSABLE:
            return
        configuration.api_key.update(fresh.api_key)


class KubeCluster:
    """A cluster's API server, kept by :class:`bus.sources.contract.Cluster`."""

    def __init__(self, api: Any, credentials: _Credentials) -> None:
        self._api = api
        self._credentials = credentials

    async def close(self) -> None:
        """Let go of all connections. Closing twice is fine."""
        await self._api.close()
        # Aborted connections are taken down in the loop's next round.
        await asyncio.sleep(0)

    async def page(self, path: str, *, limit: int, following: str = "") -> Page:
        """One page of all objects under ``path``. See :class:`bus.sources.contract.Cluster`."""
        query = [("limit", str(limit))] if limit else []
        if following:
            query.append(("continue", following))
        try:
            response = await self._get(path, "list", query, _PAGE, resumed=bool(following))
            async with response:
                raw = await _whole(response)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(error, "list", path) from error
        try:
            found = _list_decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise MalformedJsonError("the answer is no list", reason="readers disagree") from None
        return Page(
            [bytes(item) for item in found.items or ()],
            found.metadata.resource_version,
            found.metadata.continue_ or "",
            found.metadata.remaining_item_count or 0,
        )

    async def watch(self, path: str, *, version: str) -> AsyncGenerator[list[bytes]]:
        """Lines of changes after ``version``. See :class:`bus.sources.contract.Cluster`."""
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", version)]
        try:
            response = await self._get(path, "watch", query, _WATCH, resumed=True)
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
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(error, "watch", path) from error

    async def _get(
        self,
        path: str,
        verb: str,
        query: list[tuple[str, str]],
        timeout: aiohttp.ClientTimeout,
        *,
        resumed: bool,
    ) -> aiohttp.ClientResponse:
        """A response of status 200. A 401 is asked once more with credentials read anew."""
        for renewed in (False, True):
            # A paused server accepts connections and says nothing on them.
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await self._send(path, query, timeout)
            if response.status == 200:
                return response
            async with response:
                said = await _beginning(response)
            if response.status == 401 and not renewed:
                await self._credentials.renew(self._api.configuration)
                continue
            break
        # A store that was put back to an older state: our version lies in its future.
        if response.status == 504 and _TOO_LARGE_VERSION in said:
            raise GoneError(status=504)
        raise refusal(
            response.status,
            verb=verb,
            resource=resource_of(path),
            delay_seconds=_retry_after(response.headers.get("Retry-After")),
            resumed=resumed,
        )

    async def _send(
        self, path: str, query: list[tuple[str, str]], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        request = await self._api.param_serialize(
            "GET",
            path,
            query_params=list(query),
            # Compressed lists cost 25 us an object to unpack, more than their translation.
            header_params={"Accept": "application/json", "Accept-Encoding": "identity"},
            auth_settings=["BearerToken"],
        )
        answer = await self._api.call_api(*request, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response


@contextmanager
def _unread(response: aiohttp.ClientResponse) -> Iterator[None]:
    """Leave what comes meanwhile in the socket: one wake-up for all of it costs less than one for each event.

    Below TLS, as asyncio's own pause goes on reading and decrypting; where its layers are not as known, that one
    serves. A third of the CPU of a busy watch.
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
    """Ends a connection that is still in use: a farewell would wait for a server that may be
    frozen.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


def _unreachable(error: Exception, verb: str, path: str) -> ClusterUnavailableError:
    return ClusterUnavailableError(
        request=f"{verb} {resource_of(path)}", reason=f"{type(error).__name__}: {error}"[:200]
    )


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for chunk in response.content.iter_any():
        raw += chunk
        if len(raw) > LARGEST_PAGE:
            raise ObservationError("the answer is larger than a page may be", limit=LARGEST_PAGE)
    return bytes(raw)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The start of a refusal's text: enough for its reason, however much is sent."""
    try:
        async with asyncio.timeout(5):
            return await response.content.read(4096)
    except (aiohttp.ClientError, OSError):
        return b""


def _retry_after(text: str | None) -> float:
    """Seconds of a Retry-After header; one second for a date or anything else, which no API
    server sends.
    """
    if text and text.isascii() and text.isdigit() and len(text) <= 6:
        return float(text)
    return 1.0

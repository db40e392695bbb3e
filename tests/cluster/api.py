"""Plain requests to an API server, and waiting for what it says.

By `http.client`, not by the product's own adapter and not by a client library: a test of the product
should look at the cluster through other eyes than the product's. Proxies of the tester's
environment are never asked, since the server is always on this machine.
"""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

T = TypeVar("T")
Json = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class ApiError(Exception):
    """The server answered with an error; its Status object is in `body`."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status} {body.get('reason', '')}: {body.get('message', '')}")
        self.status = status
        self.body = body


class Api:
    """One user's requests. Each takes a connection of its own, so a killed server spoils none."""

    def __init__(self, url: str, token: str = "", ca_file: str = "") -> None:
        self.url = url
        self._token = token
        self._address = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=ca_file) if ca_file else None

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        content_type: str = "application/json",
        seconds: float = 15,
    ) -> Json:
        """The decoded answer; text that is not JSON comes as {"text": …}. Raises ApiError."""
        connection = self._connect(seconds)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, self._headers(content_type))
            answer = connection.getresponse()
            return _decoded(answer.status, answer.read())
        finally:
            connection.close()

    def watch(self, path: str, resource_version: str, *, seconds: int = 5) -> Iterator[Json]:
        """The watch events after a version, until the server ends the watch after `seconds`.

        A version that is gone appears as the server tells it: as an event of type ERROR or, when
        it refuses the request itself, as ApiError.
        """
        for line in self.lines(path, resource_version, seconds=seconds):
            yield json.loads(line)

    def lines(self, path: str, resource_version: str, *, seconds: int = 5) -> Iterator[bytes]:
        """The events of a watch as they come."""
        query = {"watch": 1, "resourceVersion": resource_version, "timeoutSeconds": seconds}
        separator = "&" if "?" in path else "?"
        connection = self._connect(seconds + 10)
        try:
            connection.request(
                "GET", f"{path}{separator}{urlencode(query)}", headers=self._headers("")
            )
            with connection.getresponse() as answer:
                if answer.status != http.client.OK:
                    _decoded(answer.status, answer.read())
                yield from answer
        finally:
            connection.close()

    def answers(self, path: str) -> bool:
        """True when a GET succeeds; false for any refusal, also of the connection."""
        try:
            self.request("GET", path, seconds=10)
        except (OSError, http.client.HTTPException, ApiError):
            return False
        return True

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)

    def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if content_type:
            headers["Content-Type"] = content_type
        return headers


def _decoded(status: int, content: bytes) -> Json:
    try:
        value = json.loads(content)
    except ValueError:
        value = {"text": content.decode(errors="replace")}
    if not isinstance(value, dict):
        value = {"text": content.decode(errors="replace")}
    if status >= http.client.BAD_REQUEST:
        raise ApiError(status, value if "message" in value else {"message": str(value)})
    return value


def eventually(probe: Callable[[], T], *, seconds: float = 30, every: float = 0.1) -> T:
    """The first truthy value of `probe()`; AssertionError with the last one when time runs out."""
    deadline = time.monotonic() + seconds
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s; last seen: {value!r}")
        time.sleep(every)
    return value

"""The adapter to notebook servers: one GET to one address, and never an error.

The server belongs to a tenant, so its answer is hostile. Hence no client library: httpx can ignore redirects and
proxies, but it swallows informational answers without end (two cores for five seconds, from one notebook). Here one
budget of bytes bounds everything outside the body, one deadline bounds the time.

- The address is the pod's IP from the API server. No name is looked up, so none can change in between; loopback,
  link-local, metadata and the API servers' addresses are refused before anything is sent.
- A redirect is an answer with a status, never followed. Compressed answers are refused: we ask for none.
- The connection serves one request and is then cut off, not closed politely.

Source: docs/wrong-input.md.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Literal

import msgspec

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Where clouds serve credentials to whoever asks, besides link-local: Alibaba, Oracle, Azure; AWS and Google over IPv6.
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd20:ce::254",
    )
)
_READ_BYTES = 16_384

Fault = Literal[
    "address_refused",  # not an address a pod may have, or not an address at all
    "request_refused",  # the path or the token would not be one line of printable ASCII
    "no_connection",
    "timed_out",
    "closed_early",
    "not_http",
    "too_large",
    "encoded",  # compressed, although we asked for none
]


class ProbeSettings(msgspec.Struct, frozen=True):
    """Limits on the time and size of a server's answer."""

    #: For connecting, asking and reading together.
    deadline_seconds: float = 5.0
    body_bytes: int = 262_144
    #: Everything outside the body: status lines, headers, informational answers, chunk sizes.
    head_bytes: int = 32_768
    headers: int = 100
    #: For tests with servers of their own.
    allow_loopback: bool = False
    #: Where no notebook is: the API servers' addresses, the service network.
    refused: tuple[Network, ...] = ()


class ProbeTarget(msgspec.Struct, frozen=True):
    """The address of a probe: a pod's address as the API server wrote it, and the path with the server's base URL."""

    address: str
    port: int
    path: str
    #: Of a namespace, not of a user. "" = none is sent.
    token: str = ""


class ProbeResponse(msgspec.Struct, frozen=True):
    """A complete answer, redirects and errors included. ``body`` is as sent, unread."""

    status: int
    body: bytes


class Unanswered(msgspec.Struct, frozen=True):
    """The reason of a missing answer. Nothing of the received bytes is kept."""

    fault: Fault


async def fetch(target: ProbeTarget, settings: ProbeSettings) -> ProbeResponse | Unanswered:
    """One GET. Never raises for the server's behavior or for a tenant's text in ``target``."""
    address = permitted(target.address, settings)
    if address is None:
        return Unanswered("address_refused")
    request = _request(target, address)
    if request is None:
        return Unanswered("request_refused")
    try:
        async with asyncio.timeout(settings.deadline_seconds):
            return await _exchange(str(address), target.port, request, settings)
    except TimeoutError:
        return Unanswered("timed_out")


def permitted(text: str, settings: ProbeSettings) -> Address | None:
    """The address if a pod may have it, with an IPv4 address inside IPv6 taken out; None = refused."""
    try:
        address: Address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
        if address.version == 6 and (address.sixtofour or address.teredo or address.scope_id):
            return None
    if address.is_loopback:
        return address if settings.allow_loopback else None
    strange = (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or address in METADATA
        or any(address in network for network in settings.refused)
    )
    return None if strange else address


def _request(target: ProbeTarget, address: Address) -> bytes | None:
    """The request's bytes; None when a part of it could start another line or another request."""
    spaceless = target.path.startswith("/") and " " not in target.path + target.token
    printable = (target.path + target.token).isascii() and (
        target.path + target.token
    ).isprintable()
    if not (spaceless and printable and 0 < target.port < 65_536):
        return None
    host = f"[{address}]" if address.version == 6 else str(address)
    lines = [
        f"GET {target.path} HTTP/1.1",
        f"Host: {host}:{target.port}",
        "User-Agent: bursar-probe",
        "Accept: application/json, text/plain",
        "Accept-Encoding: identity",
        "Connection: close",
    ]
    if target.token:
        lines.append(f"Authorization: token {target.token}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _exchange(
    address: str, port: int, request: bytes, settings: ProbeSettings
) -> ProbeResponse | Unanswered:
    try:
        reader, writer = await asyncio.open_connection(address, port)
    except OSError:
        return Unanswered("no_connection")
    try:
        writer.write(request)
        answer = _Reading(settings)
        while answer.outcome is None:
            answer.take(await reader.read(_READ_BYTES))
        return answer.outcome
    except OSError:
        return Unanswered("closed_early")
    finally:
        # A close would wait for the other side, possibly for ever.
        writer.transport.abort()


class _Reading:
    """One answer while it arrives. ``httptools`` calls the ``on_`` methods; a verdict ends it."""

    def __init__(self, settings: ProbeSettings) -> None:
        # Commands without probes, such as every question about culling, do not pay for the import.
        from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

        self._settings = settings
        self._parser = HttpResponseParser(self)
        self._faults = (HttpParserError, HttpParserUpgrade)
        self._received = 0
        self._headers = 0
        self._is_framed = False
        self._body = bytearray()
        self._status = 0
        self.outcome: ProbeResponse | Unanswered | None = None

    def take(self, chunk: bytes) -> None:
        """The next bytes, or none at the end of the connection."""
        if not chunk:
            # Without a length, the end of the connection is the end of the body.
            whole = self._status and not self._is_framed
            self._end(self._answer() if whole else Unanswered("closed_early"))
            return
        self._received += len(chunk)
        try:
            self._parser.feed_data(chunk)
        except self._faults:
            self._end(Unanswered("not_http"))
        overhead = self._received - len(self._body)
        if len(self._body) > self._settings.body_bytes or overhead > self._settings.head_bytes:
            self._end(Unanswered("too_large"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Counts, and reads the three headers about the body's encoding."""
        self._headers += 1
        field, content = name.lower(), value.strip().lower()
        if self._headers > self._settings.headers:
            self._end(Unanswered("too_large"))
        elif field == b"content-encoding" and content not in (b"", b"identity"):
            self._end(Unanswered("encoded"))
        elif field == b"transfer-encoding" and content != b"chunked":
            self._end(Unanswered("encoded"))
        elif field in (b"content-length", b"transfer-encoding"):
            self._is_framed = True

    def on_headers_complete(self) -> None:
        """A status is final from 200 on; those below only announce it."""
        status = self._parser.get_status_code()
        self._status = status if status >= 200 else 0

    def on_body(self, body: bytes) -> None:
        """A piece of the body, never more than was read at once."""
        self._body += body

    def on_message_complete(self) -> None:
        """The end of the answer, or of an informational one before it."""
        if self._status:
            fits = len(self._body) <= self._settings.body_bytes
            self._end(self._answer() if fits else Unanswered("too_large"))
        self._is_framed = False

    def _answer(self) -> ProbeResponse:
        return ProbeResponse(self._status, bytes(self._body))

    def _end(self, outcome: ProbeResponse | Unanswered) -> None:
        # The first verdict holds: bytes after a complete answer do not spoil it.
        if self.outcome is None:
            self.outcome = outcome

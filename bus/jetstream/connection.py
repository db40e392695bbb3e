"""One connection to NATS: nats-py does the protocol, TLS and reconnecting.

Messages of an :class:`Inbox` are handed to a plain function as the bytes they came in; see `nats_internals`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import nats.errors
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_exponential_jitter,
)

from bus.errors import BusTlsError, BusUnavailableError, PermissionDeniedError
from bus.jetstream.nats_internals import RawClient, Take, TlsRefusedError, number
from bus.jetstream.tls import Tls
from bus.waiting import heeded

#: User and password, or a NATS credentials file (JWT and seed); None for a server without log-in.
Credentials = tuple[str, str] | Path | None

_log = logging.getLogger(__name__)


class ApiError(Exception):
    """JetStream refused a request: its numeric code says why (`err_code` in its API)."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{code}: {description}")
        self.code = code
        self.description = description


class _Refusal(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct):
    error: _Refusal | None = None


_answer = msgspec.json.Decoder(_Answer)


class Inbox:
    """A private reply subject, `prefix` + any token; its messages go to one function as bytes."""

    def __init__(self, client: RawClient, subscription: Any, prefix: bytes) -> None:
        self.prefix = prefix
        self._client = client
        self._subscription = subscription

    async def close(self) -> None:
        """Stop receiving. Closing twice, or after the connection, is fine."""
        self._client.raw.pop(number(self._subscription), None)
        try:
            await heeded(self._subscription.unsubscribe())
        except nats.errors.Error:
            pass


class Connection:
    """A connection with automatic reconnects, until it is closed.

    `on_lost` holds functions called when it breaks. `last_error` is the last thing nats-py reported: a missing
    permission is reported only there.
    """

    def __init__(self, api_seconds: float, tls: Tls | None = None) -> None:
        self.on_lost: set[Callable[[], None]] = set()
        self.last_error = ""
        self.violations = 0
        self.closed = False
        self._refused = False
        self._is_greeting = False
        self._api_seconds = api_seconds
        self.tls = tls
        self._client = RawClient(tls)
        self._up = asyncio.Event()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        credentials: Credentials = None,
        tls: Tls | None = None,
        name: str = "bursar",
        inbox_prefix: str = "_INBOX_bursar",
        connect_seconds: float = 10.0,
        api_seconds: float = 5.0,
    ) -> Connection:
        """An open connection; encrypted if `tls` is given, else if the server asks for it.

        Raises BusUnavailableError when there is none within `connect_seconds`,
        PermissionDeniedError when the server refuses the log-in, and BusTlsError before anything is sent where the
        server is not encrypted as `tls` says, is another than it says, or a file of `tls` cannot be read.
        """
        self = cls(api_seconds, tls)
        try:
            async with asyncio.timeout(connect_seconds):
                self._is_greeting = True
                options = self._options(credentials, name, inbox_prefix)
                await heeded(self._client.connect(url, **options))
                self._is_greeting = False
                if not self._client.is_connected:
                    await self._up.wait()  # The server hung up on the greeting: the next try.
        except (BusTlsError, PermissionDeniedError):
            await self._client.close()
            raise
        except (TimeoutError, OSError, nats.errors.Error) as error:
            await self._client.close()
            if self._refused:
                raise PermissionDeniedError(permission="log in to the bus") from error
            reason = self.last_error or str(error)
            raise BusUnavailableError(server=_without_secrets(url), reason=reason) from error
        self._up.set()
        return self

    def _options(self, credentials: Credentials, name: str, inbox_prefix: str) -> dict[str, Any]:
        options: dict[str, Any] = {
            "name": name,
            "inbox_prefix": inbox_prefix,
            "allow_reconnect": True,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.25,
            # A frozen server is noticed after 6 s; nats-py's own 120 s would be 6 minutes.
            "ping_interval": 2,
            "max_outstanding_pings": 2,
            "error_cb": self._failed,
            "disconnected_cb": self._lost,
            "reconnected_cb": self._back,
        }
        if isinstance(credentials, tuple):
            options["user"], options["password"] = credentials
        elif credentials is not None:
            options["user_credentials"] = str(credentials)
        return options

    async def _failed(self, error: Exception) -> None:
        self.last_error = str(error) or type(error).__name__
        self.violations += "permissions violation" in self.last_error.lower()
        is_cut = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        if self._is_greeting and isinstance(error, TlsRefusedError | ssl.SSLError) and not is_cut:
            # Ends nats-py's connecting: it would try until it has another server, and none is named.
            raise BusTlsError(reason=self.last_error) from error
        if "authorization" in self.last_error.lower():
            self._refused = True
            if self._is_greeting:
                # Ends nats-py's connecting: a second try, and its other error, would say no more.
                raise PermissionDeniedError(permission="log in to the bus") from error
        _log.warning("the bus connection reports: %s", self.last_error)

    async def _lost(self) -> None:
        self._up.clear()
        for callback in tuple(self.on_lost):
            callback()

    async def _back(self) -> None:
        self._up.set()

    @property
    def connected(self) -> bool:
        """Whether the connection is up, as far as the last pings tell."""
        return self._up.is_set() and self._client.is_connected

    @property
    def given_up(self) -> bool:
        """Whether it is down for good: nats-py's reconnecting ended, for an unforeseen cause."""
        return self._client.given_up

    @property
    def server_info(self) -> dict[str, Any]:
        """The server's greeting: `version`, `server_id`, `max_payload`."""
        return self._client.greeting

    async def ready(self, seconds: float | None) -> None:
        """Return when the connection is up.

        Raises BusUnavailableError after `seconds`, or when it was closed; None waits for ever.
        """
        if not self._up.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._up.wait()
            except TimeoutError:
                raise BusUnavailableError(reason=self.last_error or "not connected") from None
        if self.closed:
            raise BusUnavailableError(reason="the connection is closed")

    async def listen(self, take: Take) -> Inbox:
        """A new private inbox; `take` is called for each message, inside the socket's reader.

        So it must be short, and must not raise.
        """
        prefix = self._client.new_inbox() + "."
        subscription = await heeded(self._client.subscribe(prefix + "*", future=asyncio.Future()))
        self._client.raw[number(subscription)] = take
        return Inbox(self._client, subscription, prefix.encode())

    async def subscribe(self, subject: str, take: Callable[[bytes], None]) -> Inbox:
        """Have ``take`` called with the body of each message published to ``subject``; see :meth:`listen`."""
        subscription = await heeded(self._client.subscribe(subject, future=asyncio.Future()))
        self._client.raw[number(subscription)] = lambda subject, reply, body, headers: take(body)
        return Inbox(self._client, subscription, subject.encode())

    async def announce(self, subject: str, body: bytes) -> None:
        """Publish to whoever subscribes to ``subject`` now. It is not stored, and there may be nobody."""
        head = f"PUB {subject} {len(body)}\r\n".encode()
        await self.send(head + body + b"\r\n")

    async def send(self, commands: bytes) -> None:
        """Write finished protocol commands in one piece, waiting while the socket's buffer is full.

        nats-py's public `publish` builds and flushes command by command: too slow for a window of a thousand
        messages.
        """
        if self._client.is_closed:
            raise BusUnavailableError(reason="the connection is closed")
        await self._client.write(commands)

    async def ask(self, subject: str, body: bytes = b"", *, domain: str = "") -> bytes:
        """The answer of JetStream's API under `$JS.API.`.

        Tries again while the bus is away or not ready, for `api_seconds` in all, then raises BusUnavailableError;
        ApiError when the answer is a refusal, PermissionDeniedError when this user may not ask. Another ``domain``
        is asked once: the question is whether it answers now.
        """
        if domain:
            message = await self._request_once(f"$JS.{domain}.API.{subject}", body)
        else:
            message = await self.request("$JS.API." + subject, body)
        answer = _answer.decode(message.data)
        if answer.error is not None:
            raise ApiError(answer.error.err_code, answer.error.description)
        return bytes(message.data)

    async def request(self, subject: str, body: bytes) -> Any:
        """One request and its answering message, with the adapter's retries. See :meth:`ask`."""
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(BusUnavailableError),
            stop=stop_after_delay(self._api_seconds),
            wait=wait_exponential_jitter(multiplier=0.05, max=1.0),
            reraise=True,
        ):
            with attempt:
                return await self._request_once(subject, body)
        raise AssertionError("tenacity either returns or raises")

    async def _request_once(self, subject: str, body: bytes) -> Any:
        await self.ready(self._api_seconds)
        violations = self.violations
        try:
            return await heeded(self._client.request(subject, body, timeout=2.0))
        except nats.errors.NoRespondersError as error:
            raise BusUnavailableError(reason="nobody answers", subject=subject) from error
        except (nats.errors.Error, TimeoutError) as error:
            self.raise_for_violation(violations)
            reason = self.last_error or type(error).__name__
            raise BusUnavailableError(reason=reason, subject=subject) from error

    def raise_for_violation(self, seen: int) -> None:
        """Raise PermissionDeniedError when the server reported a violation after the first `seen`.

        It tells only the connection, not the request: an unanswered request has to ask here.
        """
        if self.violations > seen:
            raise PermissionDeniedError(permission=self.last_error)

    async def close(self) -> None:
        """Close the socket and forget all listeners. Closing twice is fine."""
        self.closed = True
        await heeded(self._client.close())
        self.on_lost.clear()
        self._up.set()


def token() -> str:
    """A short random name for a batch or a consumer."""
    return secrets.token_hex(6)


def _without_secrets(url: str) -> str:
    head, _, address = url.rpartition("@")
    return (head.partition("//")[0] + "//" if head else "") + address

"""ADAPTER: notifies a receiver outside: one POST of small JSON to the operator's address. Never an error.

- No redirects and no proxies: it goes where the operator said, or nowhere. Nothing of the answer is read but its status.
- Each attempt has a deadline over everything, and all of them together another. Passing failures are tried again:
  no connection, no answer in time, 429, 5xx. Anything else is final.
- The address may hold a secret, as those of chat services do, so neither it nor the token is ever logged or kept: a
  failure is reported as a token, and httpx's log of every address is switched off.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import httpx
import msgspec
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_result,
    stop_after_attempt,
    wait_exponential_jitter,
)


class Receiver(msgspec.Struct, frozen=True):
    """The address of notifications, and the longest time to try. ``repr`` shows neither address nor token."""

    url: str
    #: Sent as ``Authorization: Bearer``. "" = none is.
    token: str = ""
    #: For connecting, sending and the answer's status together.
    deadline_seconds: float = 4.0
    attempts: int = 3
    #: For all attempts and the waits between them.
    total_seconds: float = 15.0
    wait_seconds: float = 1.0

    def __repr__(self) -> str:
        return "Receiver(...)"


class Delivery(msgspec.Struct, frozen=True):
    """``fault`` "" = accepted (2xx); else a token: ``http_500``, ``redirected``, ``timed_out``, ``no_connection``."""

    fault: str
    attempts: int


async def tell(receiver: Receiver, body: Mapping[str, Any]) -> Delivery:
    """POST ``body``. Never raises for the receiver's behavior."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    retrying = AsyncRetrying(
        retry=retry_if_result(_may_heal),
        stop=stop_after_attempt(receiver.attempts),
        wait=wait_exponential_jitter(
            multiplier=receiver.wait_seconds, max=5.0, jitter=receiver.wait_seconds
        ),
        retry_error_callback=_last,
    )
    try:
        async with asyncio.timeout(receiver.total_seconds):
            fault: str = await retrying(_once, receiver, body)
    except TimeoutError:
        fault = "timed_out"
    return Delivery(fault, retrying.statistics.get("attempt_number", 1))


def _last(state: RetryCallState) -> str:
    """The fault of the last attempt."""
    assert state.outcome is not None
    fault: str = state.outcome.result()
    return fault


async def _once(receiver: Receiver, body: Mapping[str, Any]) -> str:
    """The fault of one attempt; "" = it was taken."""
    headers = {"Content-Type": "application/json", "User-Agent": "bursar"}
    if receiver.token:
        headers["Authorization"] = f"Bearer {receiver.token}"
    content = msgspec.json.encode(body)
    # A client of its own: an endless answer must not hold another call's connection.
    client = httpx.AsyncClient(
        follow_redirects=False, trust_env=False, timeout=None, verify=_authorities()
    )
    try:
        async with (
            asyncio.timeout(receiver.deadline_seconds),
            client,
            client.stream("POST", receiver.url, content=content, headers=headers) as answer,
        ):
            return _fault(answer.status_code)
    except TimeoutError:
        return "timed_out"
    except httpx.TransportError:
        return "no_connection"
    except (httpx.InvalidURL, ValueError):
        return "not_an_address"


@lru_cache(maxsize=1)
def _authorities() -> ssl.SSLContext:
    """Those of the machine; reading them takes longer than a call."""
    return ssl.create_default_context()


def _fault(status: int) -> str:
    if 200 <= status < 300:
        return ""
    return "redirected" if 300 <= status < 400 else f"http_{status}"


def _may_heal(fault: str) -> bool:
    return fault in ("no_connection", "timed_out", "http_429") or fault.startswith("http_5")

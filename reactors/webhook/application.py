"""The ASGI application: one review in, one decided answer out, before the deadline. Opens no socket.

Routes and request objects of a framework are not used: on reviews of 3 KB over TLS starlette's cost 35 us of CPU each.
Health and figures have a port of their own (:mod:`reactors.webhook.health`).

The deadline does not rely on the handler, and costs one timer. It does not cancel and hope: the timer itself answers
with what `failure` says, and then cancels the handler, whenever that may end. (Refused: a task for each handler, 30 us.)
What the handler has published until then stands; a grant that no object follows lapses (docs/architecture.md). A
handler that blocks the event loop is beyond this; then the API server's own timeout and failurePolicy decide.

Source: docs/wrong-input.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from bus.metrics import Histogram, Metric, Sample
from bus.strict import LARGE_BYTES
from reactors.webhook.review import (
    MAX_BYTES,
    Answer,
    Review,
    ReviewError,
    UnreadableObjectError,
    parse,
    render,
)

if TYPE_CHECKING:
    # Questions about decisions import the rules, and no web server.
    from starlette.types import Message, Receive, Scope, Send

#: Decides one review. Must not block the event loop; is cancelled at the deadline.
Handler = Callable[[Review], Awaitable[Answer]]
#: The answer where the handler raised this exception, or said nothing in time (None). Pure.
Failure = Callable[[Review, Exception | None], Answer]

#: Large bodies that are read at once, each up to `MAX_BYTES`; further ones wait for their deadline.
LARGE_AT_ONCE = 8

_log = logging.getLogger(__name__)

_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_CLOSE = (b"connection", b"close")


class ApplicationState(msgspec.Struct):
    """What has been answered since the start."""

    allowed: int = 0
    #: By reason token.
    denied: Counter[str] = msgspec.field(default_factory=Counter)
    #: Requests that are no reviews, by HTTP status.
    refused: Counter[int] = msgspec.field(default_factory=Counter)
    #: Reviews for which the handler said nothing in time.
    late: int = 0
    #: Reviews for which the handler raised.
    failed: int = 0
    #: From a request's headers to the end of its answer.
    times: Histogram = msgspec.field(default_factory=Histogram)


def reviewed(state: ApplicationState) -> Iterator[Metric]:
    """What this process has answered since its start."""
    reviews = [Sample(state.allowed, {"allowed": "true", "reason": ""})]
    reviews += [Sample(n, {"allowed": "false", "reason": why}) for why, n in state.denied.items()]
    unreadable = [Sample(n, {"status": str(status)}) for status, n in state.refused.items()]
    for name, meaning, samples in (
        ("reviews", "Reviews answered.", reviews),
        ("unreadable", "Requests that were no reviews, by HTTP status.", unreadable),
        ("late", "Reviews without a decision in time.", [Sample(state.late)]),
        ("failed", "Reviews whose decision failed.", [Sample(state.failed)]),
    ):
        yield Metric(f"bursar_admission_{name}_total", "counter", meaning, samples)
    meaning = "From a request's headers to the end of its answer."
    yield Metric("bursar_admission_seconds", "histogram", meaning, state.times.samples())


class _DisconnectedError(Exception):
    """The asker has gone; nobody waits for an answer."""


#: Review uid and its answer, or why there is no review; None = nobody waits.
_Reply = tuple[str, Answer] | ReviewError | None


class _Exchange:
    """One request on its way to its answer."""

    __slots__ = ("late", "review", "send", "task")

    def __init__(self, send: Send, task: asyncio.Task[None]) -> None:
        self.send = send
        self.task = task
        self.review: Review | None = None
        #: The answer given at the deadline; None before it.
        self.late: asyncio.Task[None] | None = None


class Application:
    """Answers reviews with `handler`, and with `failure` where that fails or is late.

    `deadline_seconds` counts from the request's headers to the start of its answer, the reading of the body included.
    It must be shorter than the webhook's timeoutSeconds. `mutate` answers `POST /mutate`. `with_empty`
    adds `POST /empty`, which allows everything and is the control of benchmarks; never in service.
    """

    def __init__(
        self,
        handler: Handler,
        failure: Failure,
        *,
        deadline_seconds: float = 2.0,
        mutate: Handler | None = None,
        with_empty: bool = False,
    ) -> None:
        self.state = ApplicationState()
        #: Ask every client to connect anew: the server is about to stop.
        self.draining = False
        self._failure = failure
        self._deadline_seconds = deadline_seconds
        self._slots = asyncio.Semaphore(LARGE_AT_ONCE)
        self._readers = ThreadPoolExecutor(1, "large-reviews")
        self._handlers = {"/admit": handler}
        if mutate is not None:
            self._handlers["/mutate"] = mutate
        if with_empty:
            self._handlers["/empty"] = _allow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        handler = self._handlers.get(scope["path"]) if scope["type"] == "http" else None
        if handler is None:
            return await self._send(send, 404, _TEXT, b"reviews are posted to /admit\n")
        loop = asyncio.get_running_loop()
        # With the loop it need not be asked for again.
        task = asyncio.current_task(loop)
        assert task is not None
        exchange, begun = _Exchange(send, task), loop.time()
        timer = loop.call_later(self._deadline_seconds, self._expire, exchange)
        reply: _Reply = None
        try:
            reply = await self._replied(exchange, scope, receive, handler)
        except asyncio.CancelledError:
            if exchange.late is None:
                raise
            task.uncancel()
        finally:
            timer.cancel()
        await (self._say(send, reply) if exchange.late is None else exchange.late)
        self.state.times.observe(int((loop.time() - begun) * 1_000_000))

    async def _replied(
        self, exchange: _Exchange, scope: Scope, receive: Receive, handler: Handler
    ) -> _Reply:
        try:
            _check_headers(scope)
            review = await self._read(receive)
        except ReviewError as error:
            return error
        except UnreadableObjectError as error:
            message = f"Bursar cannot read the object exactly: {error.reason}"
            return error.uid, Answer(False, "unreadable-object", message, code=422)
        except _DisconnectedError:
            return None
        exchange.review = review
        try:
            return review.uid, await handler(review)
        except Exception as error:
            # An answer that comes too late is not another failure.
            self.state.failed += exchange.late is None
            _log.exception("the review %s of %s failed", review.uid, review.resource)
            return review.uid, self._failure(review, error)

    async def _read(self, receive: Receive) -> Review:
        """The review in the body. A large one takes a slot before the rest of it is read, and a thread to be read in.

        So neither memory nor the event loop is taken by bodies that are large on purpose.
        """
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message.get("body", b"")
            if len(body) <= LARGE_BYTES:
                return parse(body)
        raw = bytearray()
        more = _taken(message, raw) and await _append(receive, raw, LARGE_BYTES)
        if len(raw) > LARGE_BYTES:
            async with self._slots:
                if more:
                    await _append(receive, raw, MAX_BYTES)
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._readers, parse, bytes(raw))
        return parse(bytes(raw))

    def _expire(self, exchange: _Exchange) -> None:
        exchange.late = asyncio.get_running_loop().create_task(self._say_late(exchange))
        exchange.task.cancel()

    async def _say_late(self, exchange: _Exchange) -> None:
        review = exchange.review
        if review is None:
            late = ReviewError(status=408, reason="the body did not come in time")
            return await self._say(exchange.send, late)
        self.state.late += 1
        await self._say(exchange.send, (review.uid, self._failure(review, None)))

    async def _say(self, send: Send, reply: _Reply) -> None:
        if reply is None:
            return
        if isinstance(reply, ReviewError):
            self.state.refused[reply.status] += 1
            return await self._send(send, reply.status, _TEXT, f"{reply.reason}\n".encode())
        uid, answer = reply
        if answer.allowed:
            self.state.allowed += 1
        else:
            self.state.denied[answer.reason] += 1
        await self._send(send, 200, _JSON, render(uid, answer))

    async def _send(self, send: Send, status: int, kind: tuple[bytes, bytes], body: bytes) -> None:
        headers = [kind, (b"content-length", str(len(body)).encode())]
        # A refused body may still be on its way.
        if self.draining or status != 200:
            headers.append(_CLOSE)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _allow(review: Review) -> Answer:
    return Answer(True)


def _check_headers(scope: Scope) -> None:
    """Raises ReviewError for what no API server sends."""
    if scope["method"] != "POST":
        raise ReviewError(status=405, reason="reviews are posted")
    content_type, length = b"", b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            length = value
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise ReviewError(status=415, reason="reviews are application/json")
    # The HTTP parser has refused lengths that are no numbers.
    if length and int(length) > MAX_BYTES:
        raise ReviewError(status=413, reason=f"larger than {MAX_BYTES} bytes")


def _taken(message: Message, raw: bytearray) -> bool:
    """Add a piece of the body to ``raw``; whether there is more of it."""
    if message["type"] == "http.disconnect":
        raise _DisconnectedError
    raw += message.get("body", b"")
    return bool(message.get("more_body", False))


async def _append(receive: Receive, raw: bytearray, most: int) -> bool:
    """Read into ``raw`` until the body ends, or is longer than ``most``; whether there is more of it.

    Raises ReviewError as soon as it is too large for a review.
    """
    more = True
    while more and len(raw) <= most:
        more = _taken(await receive(), raw)
    if len(raw) > MAX_BYTES:
        raise ReviewError(status=413, reason=f"larger than {MAX_BYTES} bytes")
    return more

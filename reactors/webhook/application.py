"""The ASGI application: one review in, one decided answer out, before the deadline. Opens no socket.

Routes and request objects of a framework are not used: on reviews of 3 KB over TLS starlette's cost 35 us of CPU each.
Health and figures have a port of their own (:mod:`reactors.webhook.health`).

The deadline costs one timer and does not rely on the handler. At the deadline, the timer itself sends
the answer of `failure`, and then cancels the handler, whenever that may end. (Refused: a task for each handler, 30 us.)
Events published by the handler until then stay; a grant without an object lapses (docs/architecture.md). A
handler that blocks the event loop is beyond this; then the API server's own timeout and failurePolicy decide.

Every body that begins as an AdmissionReview gets an answer with its uid. If the rest is too large, malformed or late, `unread`
answers by its outline. Memory is bounded apart from that: a large body waits for its turn with 128 KiB, one in its turn
takes up to `MAX_BYTES`, and beyond that only its outline is kept.

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
from reactors.webhook.failure import UNAVAILABLE, Failure, Unread, unread
from reactors.webhook.outline import Outline, OutlineReader, outline_of
from reactors.webhook.review import (
    MAX_BYTES,
    Answer,
    Review,
    ReviewError,
    UnreadableObjectError,
    parse,
    render,
)
from reactors.webhook.turns import FairTurns

if TYPE_CHECKING:
    # Questions about decisions import the rules, and no web server.
    from starlette.types import Message, Receive, Scope, Send

#: Decides one review. Must not block the event loop; is cancelled at the deadline.
Handler = Callable[[Review], Awaitable[Answer]]

#: Large bodies read at once, each up to `MAX_BYTES`, and of them those of one namespace; further ones wait.
LARGE_AT_ONCE = 8
LARGE_OF_ONE = 3

_log = logging.getLogger(__name__)

_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_CLOSE = (b"connection", b"close")
_UNKNOWN = Answer(
    False, UNAVAILABLE, f"Bursar could not answer this review, ask again ({UNAVAILABLE})", code=503
)


class ApplicationState(msgspec.Struct):
    """Counts of answers since the start."""

    allowed: int = 0
    #: By reason token.
    denied: Counter[str] = msgspec.field(default_factory=Counter)
    #: Requests without a review, by HTTP status.
    refused: Counter[int] = msgspec.field(default_factory=Counter)
    #: Reviews without an answer of the handler in time.
    late: int = 0
    #: Reviews with an error of the handler.
    failed: int = 0
    #: From a request's headers to the end of its answer.
    times: Histogram = msgspec.field(default_factory=Histogram)


def reviewed(state: ApplicationState) -> Iterator[Metric]:
    """The answers of this process since its start."""
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
    """The client has disconnected, so an answer has no reader."""


#: Review uid and its answer, or the reason why there is no review; None = the client is gone.
_Reply = tuple[str, Answer] | ReviewError | None


class _Exchange:
    """One request on its way to its answer."""

    __slots__ = (
        "begun",
        "is_prolonged",
        "late",
        "raw",
        "reader",
        "review",
        "send",
        "task",
        "timer",
        "unread",
    )

    def __init__(self, send: Send, task: asyncio.Task[None], unread: Unread) -> None:
        self.send = send
        self.task = task
        self.unread = unread
        self.timer: asyncio.TimerHandle | None = None
        self.is_prolonged = False
        #: A body of several pieces: its bytes so far, its outline once it is large, its reader once it is too large.
        self.raw: bytearray | None = None
        self.begun: Outline | None = None
        self.reader: OutlineReader | None = None
        self.review: Review | None = None
        #: The answer given at the deadline; None before it.
        self.late: asyncio.Task[None] | None = None

    def outline(self) -> Outline | None:
        """The outline of the review as read so far; None if it has not begun, or the body is none."""
        found = self.reader.outline() if self.reader is not None else None
        return found or self.begun or (outline_of(bytes(self.raw)) if self.raw else None)


class Application:
    """Answers reviews with `handler`, with `failure` after its error or delay, with `unread` for unreadable reviews.

    `deadline_seconds` counts from the request's headers to the start of its answer, the reading of the body included.
    Twice as long must be shorter than the webhook's timeoutSeconds: a body that has not begun is awaited for once more.
    `mutate` answers `POST /mutate`; an unreadable object passes it unchanged, to the validating webhook. `with_empty`
    adds `POST /empty`, the control of benchmarks: it allows everything, and is never in service.
    """

    def __init__(
        self,
        handler: Handler,
        failure: Failure,
        *,
        deadline_seconds: float = 2.0,
        unread: Unread = unread,
        mutate: Handler | None = None,
        with_empty: bool = False,
    ) -> None:
        self.state = ApplicationState()
        #: Ask every client to connect anew: the server is about to stop.
        self.draining = False
        self._failure = failure
        self._deadline_seconds = deadline_seconds
        self._turns = FairTurns(LARGE_AT_ONCE, LARGE_OF_ONE)
        self._readers = ThreadPoolExecutor(1, "large-reviews")
        self._handlers = {"/admit": (handler, unread)}
        if mutate is not None:
            self._handlers["/mutate"] = mutate, _pass_on
        if with_empty:
            self._handlers["/empty"] = _allow, _pass_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        found = self._handlers.get(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            return await self._send(send, 404, _TEXT, b"reviews are posted to /admit\n")
        loop = asyncio.get_running_loop()
        # With the loop it need not be asked for again.
        task = asyncio.current_task(loop)
        assert task is not None
        handler, unread = found
        exchange, begun = _Exchange(send, task, unread), loop.time()
        exchange.timer = loop.call_later(self._deadline_seconds, self._expire, exchange)
        reply: _Reply = None
        try:
            reply = await self._replied(exchange, scope, receive, handler)
        except asyncio.CancelledError:
            if exchange.late is None:
                raise
            task.uncancel()
        finally:
            exchange.timer.cancel()
        await (self._say(send, reply) if exchange.late is None else exchange.late)
        self.state.times.observe(int((loop.time() - begun) * 1_000_000))

    async def _replied(
        self, exchange: _Exchange, scope: Scope, receive: Receive, handler: Handler
    ) -> _Reply:
        try:
            _check_headers(scope)
            review = await self._read(exchange, receive)
        except ReviewError as error:
            return error
        except UnreadableObjectError as error:
            return error.outline.uid, _unread(exchange, error.outline, error.reason)
        except _DisconnectedError:
            return None
        exchange.review = review
        try:
            return review.uid, await handler(review)
        except Exception as error:
            # An answer after the deadline is not another failure.
            self.state.failed += exchange.late is None
            _log.exception("the review %s of %s failed", review.uid, review.resource)
            return review.uid, self._failed(review, error)

    async def _read(self, exchange: _Exchange, receive: Receive) -> Review:
        """The review in the body. A large one waits for a turn before the rest of it is read, and is decoded in a thread.

        So intentionally large bodies use up neither the memory nor the event loop.
        """
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message.get("body", b"")
            if len(body) <= LARGE_BYTES:
                return parse(body)
        raw = exchange.raw = bytearray()
        more = _taken(message, raw) and await _append(receive, raw, LARGE_BYTES)
        if len(raw) <= LARGE_BYTES:
            return parse(bytes(raw))
        exchange.begun = outline = outline_of(bytes(raw[:LARGE_BYTES]))
        if outline is None:
            raise ReviewError(status=400, reason="not an AdmissionReview")
        if outline.operation == "DELETE":
            raise UnreadableObjectError(outline, "a deletion, whose object is not read")
        async with self._turns.turn(outline.namespace):
            if more:
                more = await _append(receive, raw, MAX_BYTES)
            if len(raw) > MAX_BYTES:
                raise UnreadableObjectError(
                    await self._outlined(exchange, raw, receive, more) or outline,
                    f"the review is larger than {MAX_BYTES} bytes",
                )
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._readers, parse, bytes(raw))

    async def _outlined(
        self, exchange: _Exchange, raw: bytearray, receive: Receive, more: bool
    ) -> Outline | None:
        """The outline of a review too large to hold, of any size."""
        loop, piece = asyncio.get_running_loop(), bytes(raw)
        exchange.reader = reader = OutlineReader()
        raw.clear()
        await loop.run_in_executor(self._readers, reader.feed, piece)
        while more:
            held = bytearray()
            more = _taken(await receive(), held)
            await loop.run_in_executor(self._readers, reader.feed, bytes(held))
        return reader.outline()

    def _expire(self, exchange: _Exchange) -> None:
        loop = asyncio.get_running_loop()
        if exchange.review is None and not exchange.is_prolonged and exchange.outline() is None:
            # Without a uid at its beginning, the API server would accept no answer.
            exchange.is_prolonged = True
            exchange.timer = loop.call_later(self._deadline_seconds, self._expire, exchange)
            return
        exchange.late = loop.create_task(self._say_late(exchange))
        exchange.task.cancel()

    async def _say_late(self, exchange: _Exchange) -> None:
        review, outline = exchange.review, None
        if review is None and (outline := exchange.outline()) is None:
            late = ReviewError(status=408, reason="the body did not come in time")
            return await self._say(exchange.send, late)
        self.state.late += 1
        if review is not None:
            return await self._say(exchange.send, (review.uid, self._failed(review, None)))
        assert outline is not None
        await self._say(exchange.send, (outline.uid, _unread(exchange, outline, None)))

    def _failed(self, review: Review, error: Exception | None) -> Answer:
        try:
            return self._failure(review, error)
        except Exception:
            _log.exception("the review %s of %s has no answer", review.uid, review.resource)
            return _UNKNOWN

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


def _pass_on(outline: Outline, reason: str | None) -> Answer:
    return Answer(True)


def _unread(exchange: _Exchange, outline: Outline, reason: str | None) -> Answer:
    try:
        return exchange.unread(outline, reason)
    except Exception:
        _log.exception("the review %s of %s has no answer", outline.uid, outline.resource)
        return _UNKNOWN


def _check_headers(scope: Scope) -> None:
    """Raises ReviewError for headers that no API server sends."""
    if scope["method"] != "POST":
        raise ReviewError(status=405, reason="reviews are posted")
    content_type = b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = value
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise ReviewError(status=415, reason="reviews are application/json")


def _taken(message: Message, raw: bytearray) -> bool:
    """Add a piece of the body to ``raw``; whether there is more of it."""
    if message["type"] == "http.disconnect":
        raise _DisconnectedError
    raw += message.get("body", b"")
    return bool(message.get("more_body", False))


async def _append(receive: Receive, raw: bytearray, most: int) -> bool:
    """Read into ``raw`` until the body ends, or is longer than ``most``; whether there is more of it."""
    more = True
    while more and len(raw) <= most:
        more = _taken(await receive(), raw)
    return more

"""``/v1/…``: one question, its asker, its answer. Opens no socket.

The token comes in the header ``Authorization``. The API server's own proxy does not forward that header, so it may also come as
``{"token": …}`` in the body of a POST. Errors are objects of the kind Status, so kubectl can show them.

Source: docs/operating.md, "Remote queries"; Kubernetes, "API Conventions", response status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bus.errors import BursarError
from bus.metrics import Metric, Sample
from deploy.api.answers import Answers, BusyError
from deploy.api.callers import Callers, ForbiddenError, UnauthenticatedError
from deploy.api.child import ChildAnswer
from deploy.api.questions import (
    QUESTIONS,
    Query,
    UnknownQuestionError,
    arguments,
    format_of,
    namespace_of,
    words_of,
)
from deploy.cli.rendering import Format
from deploy.errors import ConfinedError
from deploy.runtime.kept import KeptScope

#: Answers limited to a namespace are sent at multiples of this.
STEP_SECONDS = 0.25
#: Longest body, bytes: a token and little else.
LONGEST = 32 * 1024
WIDEST = 1_000
#: Parameters of the request, and not of the command. Clients that write to the API server name their field manager.
_OWN = ("width", "fieldManager")
_ENDED = {
    "time": "stopped after {0:g} s: ask for less, or give the API more time (api.seconds)",
    "memory": "stopped: it took more time or memory than an answer may (api.seconds, api.memory_mib)",
    "size": "stopped: the answer is too large; ask for less",
    "busy": "you ask too many questions at once: ask again",
}

_log = logging.getLogger(__name__)


class _Body(msgspec.Struct):
    token: str


class ApiApplication:
    """Answers the questions of :data:`deploy.api.questions.QUESTIONS`."""

    def __init__(
        self, answers: Answers, callers: Callers, is_hub: Callable[[], bool] = bool
    ) -> None:
        """``is_hub``: whether the ledger is a hub's now, of several clusters."""
        #: The server is about to stop.
        self.draining = False
        self._answers = answers
        self._callers = callers
        self._is_hub = is_hub
        self._statuses: Counter[int] = Counter()
        self._routes = Starlette(
            routes=[
                Route("/v1", self._list),
                Route("/v1/{question:path}", self._ask, methods=["GET", "POST"]),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        await self._routes(scope, receive, send)

    def metrics(self) -> Iterator[Metric]:
        """Answers since the start, by HTTP status."""
        samples = [Sample(n, {"status": str(status)}) for status, n in self._statuses.items()]
        yield Metric("bursar_questions_total", "counter", "Questions from elsewhere, by HTTP status.", samples)  # fmt: skip

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"questions": QUESTIONS})

    async def _ask(self, request: Request) -> Response:
        try:
            response = await self._answered(request)
        except UnauthenticatedError as error:
            response = _failed(401, "Unauthorized", str(error))
        except ForbiddenError as error:
            response = _failed(403, "Forbidden", str(error))
        except UnknownQuestionError as error:
            response = _failed(400, "BadRequest", str(error))
        except ConfinedError as error:
            status, reason = (429, "TooManyRequests") if isinstance(error, BusyError) else (422, "Invalid")  # fmt: skip
            response = _failed(status, reason, _ENDED[error.reason].format(error.seconds))
        except BursarError as error:
            _log.warning("nobody can be asked who asks: %s", error)
            response = _failed(503, "ServiceUnavailable", f"the API server does not say who asks: {error}")  # fmt: skip
        self._statuses[response.status_code] += 1
        return response

    async def _answered(self, request: Request) -> Response:
        caller = await self._callers.of(await _token(request))
        words = words_of(request.path_params["question"])
        every = request.query_params.multi_items()
        query = [(name, value) for name, value in every if name not in _OWN]
        begins, namespace = time.monotonic(), namespace_of(query)
        own = self._callers.cluster
        cluster = dict(query).get("cluster", "" if self._is_hub() else own)
        is_whole = await self._callers.require(caller, words, namespace, cluster)
        kept = None if is_whole else KeptScope(own, namespace)
        output = format_of(query)
        given = [one for one in query if one[0] != "output"]
        line = arguments(words, [*given, ("output", str(output))])
        if kept is not None:
            _require_time(query)
        answer = await self._answers.ask(
            line, _width(dict(every).get("width", "0")), caller.name, kept
        )
        if kept is not None:
            if answer.code:
                answer.out, answer.notes = "", ["no answer: an option is wrong"]
            # How long the whole ledger is can be seen in how long an answer takes.
            taken = time.monotonic() - begins
            await asyncio.sleep(STEP_SECONDS - taken % STEP_SECONDS)
        _log.info(
            "%s asked %s: event %s, code %d, %.2f s",
            caller.name, " ".join(line), answer.sequence, answer.code, time.monotonic() - begins,
        )  # fmt: skip
        return _response(words, output, answer)


def _require_time(query: Query) -> None:
    """Refuse parameters reserved to callers without limits: numbers of
    events are of the whole cluster. Raises UnknownQuestionError."""
    if any(name == "at" and value.isdecimal() for name, value in query):
        raise UnknownQuestionError("at: kept to a namespace, ask with a time, not with an event")


def _response(words: tuple[str, ...], output: Format, answered: ChildAnswer) -> Response:
    answer: Any = answered.out
    if output is Format.JSON and answered.out:
        answer = msgspec.Raw(answered.out.encode("utf-8", "surrogatepass"))
    body = {
        "question": " ".join(words), "sequence": answered.sequence, "code": answered.code,
        "notes": answered.notes, "answer": answer,
    }  # fmt: skip
    headers = {"Bursar-Sequence": str(answered.sequence)} if answered.sequence is not None else {}
    return Response(msgspec.json.encode(body), media_type="application/json", headers=headers)


async def _token(request: Request) -> str:
    """The token of a request. Raises UnauthenticatedError."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token:
        return token.strip()
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise UnauthenticatedError(f"a body of more than {LONGEST:,} bytes holds no token")
    try:
        return msgspec.json.decode(body, type=_Body).token
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnauthenticatedError(
            'no token: `Authorization: Bearer TOKEN`, or {"token": "TOKEN"} as the body of a POST'
        ) from None


def _width(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and int(text) <= WIDEST):
        raise UnknownQuestionError(f"width={text[:64]}: columns of a terminal, at most {WIDEST:,}")
    return int(text)


def _failed(code: int, reason: str, message: str) -> Response:
    return JSONResponse(
        {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
            "message": message,
        },
        code,
    )  # fmt: skip

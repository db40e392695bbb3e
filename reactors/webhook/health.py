"""Health of the webhook, on a port of its own: whether it lives, whether it is ready, and its figures.

The port of reviews may ask for client certificates, but a kubelet and Prometheus have none. And readers of figures
need no right to send reviews. This port is plain HTTP and decides nothing.

Source: Kubernetes, "Configure Liveness, Readiness and Startup Probes"; Prometheus, "Exposition formats".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bus.metrics import CONTENT_TYPE, Metric, exposition


class HealthApplication:
    """``GET /healthz``, ``/readyz`` and ``/metrics``."""

    def __init__(
        self,
        ready: Callable[[], bool] = lambda: True,
        metrics: Callable[[], Iterable[Metric]] = tuple,
        routes: Sequence[Route] = (),
    ) -> None:
        """``routes``: more paths of this port."""
        #: The server of this port is about to stop.
        self.draining = False
        self._ready = ready
        self._metrics = metrics
        self._routes = Starlette(
            routes=[
                Route("/healthz", _healthy),
                Route("/readyz", self._readiness),
                Route("/metrics", self._exposition),
                *routes,
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        await self._routes(scope, receive, send)

    async def _readiness(self, request: Request) -> PlainTextResponse:
        if self.draining or not self._ready():
            return PlainTextResponse("not ready\n", status_code=503)
        return PlainTextResponse("ok\n")

    async def _exposition(self, request: Request) -> Response:
        return StreamingResponse(_in_parts(self._metrics()), media_type=CONTENT_TYPE)


async def _in_parts(metrics: Iterable[Metric]) -> AsyncIterator[str]:
    """The text in parts, with reviews answered between them: ten thousand quotas make 20 MB."""
    for part in exposition(metrics):
        yield part
        await asyncio.sleep(0)


async def _healthy(request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok\n")

"""Admission as a process runs it: journals, view, handler, webhook server and its registration; and the keeper.

Every replica answers; one keeps (``bursar up``). A replica is ready when it has read the history to the end that
there was when it began.

Source: ``house.md`` sections 5 and 7.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from bus.clock import Clock, SystemClock, floor_seconds
from bus.kinds import GOVERNED
from bus.metrics import Metric
from bus.transport import Transport
from deploy.bootstrap import beside
from deploy.settings import Settings
from projections.engine.runner import seldom_collecting
from reactors.admission.figures import Decisions, figures
from reactors.admission.handler import Handler
from reactors.admission.keeper import Keeper
from reactors.admission.rate import Rate
from reactors.admission.view import View
from reactors.effectors.events import Recorder, Writes
from reactors.effectors.release import Patches, Starter
from reactors.engine.journals import Journals
from reactors.queue.figures import figures as queue_figures
from reactors.queue.hold import Hold
from reactors.queue.releasing import Releasing
from reactors.webhook.application import Application
from reactors.webhook.certificates import Certificates, GivenCertificates, OwnCertificates
from reactors.webhook.failure import closed_for
from reactors.webhook.registration import (
    MUTATING_PATH,
    PATH,
    RegistrationSettings,
    configuration,
    mutating_configuration,
)
from reactors.webhook.review import Answer, Review
from reactors.webhook.rotation import Rotation
from reactors.webhook.server import ServerSettings, WebhookServer

#: Between two looks at what a complete list would settle.
DUE_SECONDS = 5.0


class Applies(Writes, Protocol):
    """What registration, queues and Events ask of a cluster."""

    async def apply(self, path: str, body: dict[str, Any]) -> Any:
        """Server-side apply."""

    async def patch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> Any:
        """JSON Patch."""

    async def merge(self, path: str, body: Mapping[str, Any]) -> Any:
        """JSON merge patch."""


#: Metrics of other parts of a process, shown with those of admission.
Figures = list[Callable[[], Iterator[Metric]]]


class Admission(msgspec.Struct, frozen=True):
    """The admission side of one process."""

    journals: Journals
    view: View
    handler: Handler
    keeper: Keeper | None
    decisions: Decisions
    releasing: Releasing | None = None


@asynccontextmanager
async def following(
    transport: Transport,
    clock: Clock,
    *,
    cluster: str,
    source: str,
    keeps: bool,
    relist: Callable[[str], None] = lambda kind: None,
    starts: Patches | None = None,
) -> AsyncIterator[Admission]:
    """Follow the journals, and keep them true if this process ``keeps``. Entered when the history was read to its end.

    ``relist(kind)`` asks for a complete list of a kind. Who keeps works off the queues, too, where it can start what
    waits by ``starts``.
    """
    journals = Journals(transport, clock, cluster=cluster, source=source)
    view = View(cluster)
    journals.listen(view.take)
    decisions = Decisions(cluster)
    journals.listen(decisions.take)
    keeper = Keeper(journals, view, clock) if keeps else None
    if not keeps:
        journals.listen(lambda event: view.unmark())
    releasing = None
    if keeps and starts is not None:
        releasing = Releasing(journals, view, clock, Starter(starts))
    handler = Handler(journals, view, clock, Rate())
    admission = Admission(journals, view, handler, keeper, decisions, releasing)
    head = await transport.head()
    async with AsyncExitStack() as stack:
        # Looking for cycles that are none takes a tenth of a review's time.
        stack.enter_context(seldom_collecting())
        await stack.enter_async_context(beside(journals.follow()))
        await journals.reached(head.last_sequence)
        if keeper is not None:
            await stack.enter_async_context(beside(keeper.run()))
            await stack.enter_async_context(beside(_relisting(keeper, clock, relist)))
        if releasing is not None:
            await stack.enter_async_context(beside(releasing.run()))
        yield admission


async def _relisting(keeper: Keeper, clock: Clock, relist: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(DUE_SECONDS)
        for kind in sorted(keeper.due(clock.now_us())):
            relist(kind)


@asynccontextmanager
async def admitting(
    settings: Settings,
    transport: Transport,
    cluster: Applies | None,
    *,
    keeps: bool,
    relist: Callable[[str], None] = lambda kind: None,
    more: Figures | None = None,
) -> AsyncIterator[Admission]:
    """The admission side of one process as the settings have it, with its webhook unless they only watch.

    ``more`` is asked at each scrape, so what is added to it later is shown, too.
    """
    clock, wanted = SystemClock(), settings.admission
    source = f"{'keeper' if keeps else 'webhook'}/{platform.node()}"
    async with AsyncExitStack() as stack:
        admission = await stack.enter_async_context(
            following(
                transport, clock, cluster=settings.cluster.name, source=source, keeps=keeps,
                relist=relist, starts=cluster,
            )
        )  # fmt: skip
        if admission.releasing is not None and more is not None:
            more.append(partial(queue_figures, admission.releasing.lines))
        if wanted.mode in ("shadow", "enforce"):
            registration = RegistrationSettings(
                wanted.namespace, wanted.service, 443, wanted.url, wanted.failure_policy,
                wanted.exempt_namespaces, wanted.controllers,
            )  # fmt: skip
            await stack.enter_async_context(
                serving(
                    admission, certificates(settings, clock), cluster,
                    ServerSettings(wanted.host, wanted.port), registration,
                    is_shadow=wanted.mode == "shadow", more=more if more is not None else (),
                )
            )  # fmt: skip
            if keeps and cluster is not None:
                await stack.enter_async_context(_recording(admission, cluster, clock, wanted.mode))
        yield admission


@asynccontextmanager
async def _recording(
    admission: Admission, cluster: Writes, clock: Clock, mode: str
) -> AsyncIterator[None]:
    """Tell of what is refused from now on as Events: what was refused before was told then."""
    recorder = Recorder(
        cluster, clock, admission.journals.tree,
        instance=platform.node(), is_shadow=mode == "shadow",
    )  # fmt: skip
    admission.journals.listen(recorder.take)
    async with beside(recorder.run()):
        yield


def certificates(settings: Settings, clock: Clock) -> Certificates:
    """Those that the settings name, or our own for the address that the API server calls."""
    wanted = settings.admission
    if wanted.certificate is not None:
        return GivenCertificates(
            wanted.certificate, wanted.key or wanted.certificate, wanted.authority
        )
    host = urlsplit(wanted.url).hostname or f"{wanted.service}.{wanted.namespace}.svc"
    return OwnCertificates(settings.data / "webhook", (host,), clock)


@asynccontextmanager
async def serving(
    admission: Admission,
    certificates: Certificates,
    cluster: Applies | None,
    settings: ServerSettings,
    registration: RegistrationSettings,
    *,
    is_shadow: bool = False,
    more: Sequence[Callable[[], Iterator[Metric]]] = (),
) -> AsyncIterator[WebhookServer]:
    """Serve reviews while the body runs, and keep the API server's registration current.

    ``is_shadow``: decide and record, and refuse nothing. ``cluster`` None: another process registers it.
    """
    handler = shadowed(admission.handler) if is_shadow else admission.handler
    charged = {(kind.group, kind.resource) for kind in GOVERNED}
    hold = None if is_shadow else Hold(admission.journals, admission.view)

    def metrics() -> Iterator[Metric]:
        yield from figures(admission.journals, admission.decisions, floor_seconds(clock.now_us()))
        for part in more:
            yield from part()

    clock = SystemClock()
    application = Application(handler, closed_for(charged), mutate=hold, metrics=metrics)

    async def trust(bundle: bytes) -> None:
        if cluster is not None:
            await cluster.apply(PATH, configuration(registration, GOVERNED, bundle))
            if not is_shadow:
                mutating = mutating_configuration(registration, GOVERNED, bundle)
                await cluster.apply(MUTATING_PATH, mutating)

    rotation = Rotation(certificates, trust)
    server = WebhookServer(application, settings, rotation.begin())
    await server.start()
    try:
        async with beside(rotation.run()):
            yield server
    finally:
        await server.stop()


def shadowed(handler: Handler) -> Callable[[Review], Any]:
    """``handler``, whose refusals become warnings."""

    async def answer(review: Review) -> Answer:
        said = await handler(review)
        if said.allowed:
            return said
        warning = f"Bursar would refuse this: {said.message}"
        return Answer(True, said.reason, warnings=(warning, *said.warnings))

    return answer

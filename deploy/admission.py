"""Admission as a process runs it: journals, view, handler, webhook server and its registration; and the keeper.

Every replica answers; one keeps (``bursar up``). A replica is ready when it has read the history to the end that
there was when it began.

Source: ``house.md`` sections 5 and 7.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from bus.clock import Clock, SystemClock
from bus.kinds import GOVERNED
from bus.transport import Transport
from deploy.bootstrap import beside
from deploy.settings import Settings
from reactors.admission.handler import Handler
from reactors.admission.keeper import Keeper
from reactors.admission.rate import Rate
from reactors.admission.view import View
from reactors.engine.journals import Journals
from reactors.webhook.application import Application
from reactors.webhook.certificates import Certificates, GivenCertificates, OwnCertificates
from reactors.webhook.failure import closed_for
from reactors.webhook.registration import PATH, RegistrationSettings, configuration
from reactors.webhook.review import Answer, Review
from reactors.webhook.rotation import Rotation
from reactors.webhook.server import ServerSettings, WebhookServer

#: Between two looks at what a complete list would settle.
DUE_SECONDS = 5.0


class Applies(Protocol):
    """What registration asks of a cluster."""

    async def apply(self, path: str, body: dict[str, Any]) -> Any:
        """Server-side apply."""


class Admission(msgspec.Struct, frozen=True):
    """The admission side of one process."""

    journals: Journals
    view: View
    handler: Handler
    keeper: Keeper | None


@asynccontextmanager
async def following(
    transport: Transport,
    clock: Clock,
    *,
    cluster: str,
    source: str,
    keeps: bool,
    relist: Callable[[str], None] = lambda kind: None,
) -> AsyncIterator[Admission]:
    """Follow the journals, and keep them true if this process ``keeps``. Entered when the history was read to its end.

    ``relist(kind)`` asks for a complete list of a kind.
    """
    journals = Journals(transport, clock, cluster=cluster, source=source)
    view = View(cluster)
    journals.listen(view.take)
    keeper = Keeper(journals, view, clock) if keeps else None
    admission = Admission(journals, view, Handler(journals, view, clock, Rate()), keeper)
    head = await transport.head()
    async with beside(journals.follow()):
        await journals.reached(head.last_sequence)
        if keeper is None:
            yield admission
            return
        async with beside(keeper.run()), beside(_relisting(keeper, clock, relist)):
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
) -> AsyncIterator[Admission]:
    """The admission side of one process as the settings have it, with its webhook unless they only watch."""
    clock, wanted = SystemClock(), settings.admission
    source = f"{'keeper' if keeps else 'webhook'}/{platform.node()}"
    async with AsyncExitStack() as stack:
        admission = await stack.enter_async_context(
            following(
                transport, clock, cluster=settings.cluster.name, source=source, keeps=keeps,
                relist=relist,
            )
        )  # fmt: skip
        if wanted.mode in ("shadow", "enforce"):
            registration = RegistrationSettings(
                wanted.namespace, wanted.service, 443, wanted.url, wanted.failure_policy,
                wanted.exempt_namespaces, wanted.controllers,
            )  # fmt: skip
            await stack.enter_async_context(
                serving(
                    admission, certificates(settings, clock), cluster,
                    ServerSettings(wanted.host, wanted.port), registration,
                    is_shadow=wanted.mode == "shadow",
                )
            )  # fmt: skip
        yield admission


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
) -> AsyncIterator[WebhookServer]:
    """Serve reviews while the body runs, and keep the API server's registration current.

    ``is_shadow``: decide and record, and refuse nothing. ``cluster`` None: another process registers it.
    """
    handler = shadowed(admission.handler) if is_shadow else admission.handler
    charged = {(kind.group, kind.resource) for kind in GOVERNED}
    application = Application(handler, closed_for(charged))

    async def trust(bundle: bytes) -> None:
        if cluster is not None:
            await cluster.apply(PATH, configuration(registration, GOVERNED, bundle))

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

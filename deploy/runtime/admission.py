"""Admission in one process: its configured parts, the webhook's server and its registration.

Source: docs/architecture.md.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from sqlalchemy.exc import SQLAlchemyError
from starlette.routing import Route

from bus.clock import Clock, SystemClock, floor_seconds
from bus.errors import PermanentError
from bus.events.admissions import AdmissionDecided
from bus.metrics import Metric
from bus.transport import Transport
from bus.waiting import beside
from deploy.runtime.files import connections
from deploy.runtime.ledgers import reader
from deploy.runtime.proving import Prover
from deploy.runtime.registering import Registers, Registrar, certificates, settings_of
from deploy.runtime.tracing import Tracer, traced, tracing
from deploy.runtime.undecided import noting, noting_outlines
from deploy.settings.admission import AdmissionSettings
from deploy.settings.shape import Settings
from projections.engine.checkpoint import confirm
from projections.engine.heads import Signer
from projections.engine.store import Store
from reactors.admission.coverage.owners import Controllers
from reactors.admission.metrics import figures
from reactors.admitting import Admission, failing, following, outlining, proving, shadowed
from reactors.diagnosis import Diagnosis
from reactors.effectors.events import EventClient, Recorder
from reactors.queue.hold import Hold
from reactors.queue.metrics import figures as queue_figures
from reactors.queue.notices import notice
from reactors.webhook.application import Application, reviewed
from reactors.webhook.certificates import Certificates
from reactors.webhook.gate import ConnectionLimits
from reactors.webhook.health import HealthApplication
from reactors.webhook.registration import RegistrationSettings
from reactors.webhook.rotation import Rotation
from reactors.webhook.server import ServerSettings, WebhookServer

if TYPE_CHECKING:
    from bus.kube.client import KubeCluster


class Applies(EventClient, Registers, Protocol):
    """Cluster operations of registration, queues and Events."""

    async def patch(self, path: str, operations: Sequence[Mapping[str, Any]]) -> Any:
        """JSON Patch."""

    async def merge(self, path: str, body: Mapping[str, Any]) -> Any:
        """JSON merge patch."""


#: Metrics of other parts of a process, shown with those of admission.
Figures = list[Callable[[], Iterator[Metric]]]
#: Serves questions while it is entered, if the settings ask for it; its metrics are added to the figures.
Answering: TypeAlias = (
    "Callable[[Settings, KubeCluster, Figures], AbstractAsyncContextManager[object]]"
)


@asynccontextmanager
async def admitting(
    settings: Settings,
    transport: Transport,
    cluster: Applies | None,
    *,
    keeps: bool,
    relist: Callable[[str], None] = lambda kind: None,
    more: Figures | None = None,
    prover: Prover | None = None,
    ledger: Store | None = None,
    signer: Signer | None = None,
    diagnosis: Diagnosis | None = None,
    shows: Figures | None = None,
) -> AsyncIterator[Admission]:
    """Run the admission side of one process, with its webhook unless the settings only watch.

    ``more`` is read at each scrape, so later additions are shown, too. ``prover`` proves the arrival of reviews.
    ``shows`` receives the metrics of a process with its own health port. None: admission opens a health port.
    ``ledger`` and ``signer``: see :func:`reactors.admitting.following`.
    ``diagnosis`` is served beside health, if the settings ask for it.
    Raises SettingsError if enforced reviews could be forged by anybody, and UnprovenWebhookError if no review arrives.
    """
    clock, wanted = SystemClock(), settings.admission
    wanted.require_authenticated()
    source = f"{'keeper' if keeps else 'webhook'}/{platform.node()}"
    async with AsyncExitStack() as stack:
        admission = await stack.enter_async_context(
            following(
                transport, clock, cluster=settings.cluster.name, source=source, keeps=keeps,
                relist=relist, starts=cluster, controllers=controllers_of(wanted),
                requires_namespaces=wanted.require_namespaces, ledger=ledger, signer=signer, writes=keeps,
            )
        )  # fmt: skip
        if admission.releasing is not None and more is not None:
            more.append(partial(queue_figures, admission.releasing.lines))
        if wanted.mode in ("shadow", "enforce"):
            server, health = servers(wanted)
            tracer = await stack.enter_async_context(tracing(settings, "webhook"))
            await stack.enter_async_context(
                serving(
                    admission, certificates(settings, clock), cluster, server, settings_of(wanted),
                    is_shadow=wanted.mode == "shadow", more=more if more is not None else (),
                    client_ca=wanted.client_ca, health=health, prover=prover,
                    answers=wanted.serves or not keeps,
                    diagnosis=diagnosis if wanted.answers_diagnosis else None, shows=shows,
                    tracer=tracer,
                )
            )  # fmt: skip
            if keeps and cluster is not None:
                await stack.enter_async_context(_recording(admission, cluster, clock, wanted.mode))
        elif shows is not None:
            shows.append(partial(_figures, admission, clock, more or ()))
        elif wanted.health_port is not None:
            await stack.enter_async_context(
                shown(partial(_figures, admission, clock, more or ()), servers(wanted)[1])
            )
        yield admission


async def beginning(
    settings: Settings, transport: Transport, stack: AsyncExitStack
) -> tuple[Store, Signer] | str:
    """The ledger of another process and the key of its snapshots, or the reason to start without them.

    The ledger must exist and match the history of the bus. Its key
    must be in the configured folder, as it proves each snapshot.
    """
    if not settings.signing_key.exists():
        return "the key that seals snapshots is not here"
    try:
        made = await asyncio.to_thread(reader, settings)
        stack.callback(made.dispose)
        store, signer = Store(made), Signer(settings.signing_key)
        await confirm(await asyncio.to_thread(store.checkpoint, ""), transport)
    except PermanentError as error:
        return str(error)
    except SQLAlchemyError as error:
        return f"the ledger does not answer ({type(error).__name__})"
    return store, signer


def controllers_of(settings: AdmissionSettings) -> Controllers:
    """The accounts of controllers in the settings."""
    return Controllers(frozenset(settings.controllers), frozenset(settings.controller_groups))


@asynccontextmanager
async def _recording(
    admission: Admission, cluster: EventClient, clock: Clock, mode: str
) -> AsyncIterator[None]:
    """Report new refusals and holds as Events. Earlier ones were reported when they happened."""

    def waiting(uid: str) -> tuple[AdmissionDecided, str] | None:
        return notice(admission.lines, admission.view, admission.journals, uid, clock.now_us())

    recorder = Recorder(
        cluster, clock, admission.journals.tree,
        instance=platform.node(), is_shadow=mode == "shadow", waiting=waiting,
    )  # fmt: skip
    admission.journals.listen(recorder.apply)
    async with beside(recorder.run()):
        yield


def servers(wanted: AdmissionSettings) -> tuple[ServerSettings, ServerSettings]:
    """Where reviews are answered, and where health and figures are."""
    most = connections(wanted.connections)
    limits = ConnectionLimits(most, min(wanted.connections_per_address, most))
    port = wanted.health_port
    if port is None:
        port = wanted.port + 1 if 0 < wanted.port < 65_535 else 0
    few = ConnectionLimits(64, 32)
    return (
        ServerSettings(wanted.host, wanted.port, client_names=wanted.client_names, limits=limits),
        ServerSettings(wanted.health_host, port, drain_seconds=0, limits=few),
    )


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
    client_ca: Path | None = None,
    health: ServerSettings | None = None,
    prover: Prover | None = None,
    answers: bool = True,
    diagnosis: Diagnosis | None = None,
    shows: Figures | None = None,
    tracer: Tracer | None = None,
) -> AsyncIterator[WebhookServer]:
    """Serve reviews while the body runs, and keep the API server's registration current.

    ``is_shadow``: decide and record, but refuse nothing. ``cluster`` None: another process registers the webhook.
    ``client_ca``: accept only clients with a certificate of these
    authorities. ``health``: address of health and figures; None = no port.
    ``prover``: start after it proved the arrival of reviews.
    ``answers`` off: this process only registers; others answer reviews.
    ``diagnosis``: more paths of the health port. ``shows`` receives the
    metrics instead of that port. ``tracer`` records each review.
    """
    answer = shadowed(admission.handler) if is_shadow else admission.handler
    handler = proving(traced(answer, tracer))
    clock, failure = SystemClock(), failing(admission, is_shadow=is_shadow)
    unread = outlining(admission, is_shadow=is_shadow)
    if prover is not None:
        failure = noting(failure, prover.proof.undecided, clock)
        unread = noting_outlines(unread, prover.proof.undecided, clock)
    hold = None if is_shadow else Hold(admission.journals, admission.view)
    application = Application(handler, failure, unread=unread, mutate=hold)

    def metrics() -> Iterator[Metric]:
        yield from reviewed(application.state)
        if prover is not None:
            yield from prover.metrics()
        yield from server.metrics()
        yield from rotation.metrics()
        yield from _figures(admission, clock, more)

    registrar = None if cluster is None else Registrar(cluster, registration, is_shadow=is_shadow)
    trust = None if registrar is None else registrar.register
    rotation = Rotation(certificates, trust, client_ca)
    server = WebhookServer(application, settings, rotation.begin())
    async with AsyncExitStack() as stack:
        if shows is not None:
            shows.append(metrics)
        elif health is not None:
            routes = diagnosis.routes if diagnosis is not None else ()
            await stack.enter_async_context(
                shown(metrics, health, lambda: not application.draining, routes)
            )
        if answers:
            await server.start()
            stack.push_async_callback(server.stop)
        await stack.enter_async_context(beside(rotation.run()))
        if prover is not None:
            prover.registration = lambda: rotation.problem
            prover.ends = lambda: rotation.ends
            prover.waits = lambda: registrar is not None and registrar.waits
            await prover.begin()
            await stack.enter_async_context(beside(prover.run()))
        yield server


def _figures(
    admission: Admission, clock: Clock, more: Iterable[Callable[[], Iterator[Metric]]]
) -> Iterator[Metric]:
    """The metrics of quotas, and those of other parts of the process."""
    yield from figures(admission.journals, admission.decisions, floor_seconds(clock.now_us()))
    for part in more:
        yield from part()


@asynccontextmanager
async def healthy(
    settings: Settings, more: Figures, shows: Figures | None = None
) -> AsyncIterator[None]:
    """Answer probes and show ``more`` without a webhook, on the configured health port. Without such a port, do nothing.

    ``shows`` receives the metrics of a process with its own health port.
    """

    def metrics() -> Iterator[Metric]:
        for part in more:
            yield from part()

    if shows is not None:
        shows.append(metrics)
    if shows is not None or settings.admission.health_port is None:
        yield
        return
    async with shown(metrics, servers(settings.admission)[1]):
        yield


@asynccontextmanager
async def shown(
    metrics: Callable[[], Iterable[Metric]],
    settings: ServerSettings,
    ready: Callable[[], bool] = lambda: True,
    routes: Sequence[Route] = (),
) -> AsyncIterator[None]:
    """Answer health and metrics on a port of their own."""
    server = WebhookServer(HealthApplication(ready, metrics, routes), settings, None)
    await server.start()
    try:
        yield
    finally:
        await server.stop()

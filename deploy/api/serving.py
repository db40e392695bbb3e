"""The server of questions, by the settings: certificates, limits, and the check of callers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bus.clock import SystemClock
from bus.waiting import beside
from deploy.api.answers import Answers
from deploy.api.application import ApiApplication
from deploy.api.callers import CallerClient, Callers
from deploy.runtime.admission import Figures
from deploy.runtime.clusters import is_hub
from deploy.runtime.confined import Limits
from deploy.settings.environment import environment
from deploy.settings.place import place_of
from deploy.settings.shape import Settings
from reactors.webhook.certificates import Certificates, GivenCertificates, OwnCertificates
from reactors.webhook.gate import ConnectionLimits
from reactors.webhook.rotation import Rotation
from reactors.webhook.server import ServerSettings, WebhookServer

_MIB = 1024 * 1024
#: Largest file of an answer: rows of the past.
_FILE_BYTES = 1024 * _MIB


@asynccontextmanager
async def answering(
    settings: Settings, cluster: CallerClient, figures: Figures | None = None
) -> AsyncIterator[WebhookServer]:
    """Answer questions while the body runs. ``figures`` gets its metrics."""
    wanted = settings.api
    limits = Limits(wanted.seconds, wanted.memory_mib * _MIB, wanted.answer_mib * _MIB, _FILE_BYTES)
    # The answers are about this process's ledger, however it was configured.
    place = {
        "BURSAR_DATA": str(settings.data),
        "BURSAR_LEDGER__URL": settings.ledger_url,
        "BURSAR_CLUSTER__NAME": settings.cluster.name,
    }
    answers = Answers(limits, {**environment(), **place}, wanted.at_once)
    application = ApiApplication(
        answers, Callers(cluster, settings.cluster.name), lambda: is_hub(place_of(settings))
    )
    rotation = Rotation(_certificates(settings), _unannounced)
    server = WebhookServer(
        application,
        # An answer takes as long as it may, and its asker's review before it.
        ServerSettings(
            wanted.host, wanted.port, limits=ConnectionLimits(256, 128, request_seconds=wanted.seconds + 30)
        ),
        rotation.begin(),
    )  # fmt: skip
    await server.start()
    try:
        if figures is not None:
            figures += [application.metrics, server.metrics]
        async with beside(rotation.run()):
            yield server
    finally:
        await server.stop()
        await answers.close()


def _certificates(settings: Settings) -> Certificates:
    wanted = settings.api
    if wanted.certificate is not None:
        return GivenCertificates(wanted.certificate, wanted.key or wanted.certificate, None)
    host = f"{wanted.service}.{wanted.namespace}.svc"
    return OwnCertificates(settings.data / "api", (host,), SystemClock())


async def _unannounced(bundle: bytes) -> None:
    """Does nothing: the API server's proxy takes any certificate, and others read it from the folder."""

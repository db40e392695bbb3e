"""``bursar api``: answers to remote questions over HTTPS."""

from __future__ import annotations

import asyncio

import typer

from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.output import say
from deploy.errors import SettingsError, StoppedError
from deploy.processes.logs import log_as_set
from deploy.settings.shape import Settings


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "api")(api)


def api(asked: CommandContext) -> None:
    """Answer questions over HTTPS, for `kubectl bursar`. It reads, and changes nothing.

    Callers show a token for the audience `bursar-api`. TokenReview checks it, and SubjectAccessReview whether its owner may
    `get` the question in the group `questions.bursar.io`. Each answer is computed in a process of its own with limits of time
    and memory, and names its newest event.

    \b
    bursar api --ledger postgresql://reader@db/bursar
    """
    from deploy.runtime.bootstrap import run

    settings = asked.settings
    log_as_set(settings)
    try:
        run(_serve(settings))
    except StoppedError:
        say("stopped")


async def _serve(settings: Settings) -> None:
    from bus.kube import client
    from deploy.api.serving import answering
    from deploy.runtime.admission import Figures, healthy
    from deploy.runtime.ledgers import reader
    from deploy.settings.load import cluster_access

    access = cluster_access(settings)
    if access is None:
        raise SettingsError(
            "no cluster found that says who asks: no kubeconfig and no service account"
        )
    reader(settings).dispose()
    cluster = await client.connect(access, trust_env=settings.cluster.trust_env)
    figures: Figures = []
    try:
        async with answering(settings, cluster, figures) as server, healthy(settings, figures):
            say(f"answering questions on {settings.api.host}:{server.port}")
            await asyncio.Event().wait()
    finally:
        await cluster.close()

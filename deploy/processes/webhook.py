"""``bursar webhook``: one more process for reviews."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import typer

from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.output import say
from deploy.errors import SettingsError, StoppedError
from deploy.processes.logs import log_as_set
from deploy.settings.admission import announcement_of
from deploy.settings.shape import Settings


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "webhook")(webhook)


def webhook(asked: CommandContext) -> None:
    """Answer admission reviews in another process. It runs beside `bursar up`.

    Any number of them may run: all decisions are in one history, and each knows all earlier ones. They need the bus, and no
    ledger. With access to the ledger, and the key that signs its heads, they start from its newest snapshot instead of the
    whole history. `bursar up` writes the quotas' status and registers the webhook with the API server. All of them serve one
    certificate: give it (BURSAR_ADMISSION__CERTIFICATE, …__KEY), or let them share a data folder.

    \b
    BURSAR_ADMISSION__MODE=enforce bursar webhook --bus nats://nats:4222
    """
    from deploy.runtime.bootstrap import run

    settings = asked.settings
    log_as_set(settings)
    if settings.admission.mode not in ("shadow", "enforce"):
        raise SettingsError(
            "there is nothing to answer: set BURSAR_ADMISSION__MODE to shadow or enforce"
        )
    try:
        run(_serve(settings))
    except StoppedError:
        say("stopped; reviews under way were answered")


async def _serve(settings: Settings) -> None:
    from deploy.runtime.admission import admitting, beginning
    from deploy.runtime.bootstrap import bus
    from deploy.runtime.files import raise_file_limit

    settings.admission.require_authenticated()
    say(raise_file_limit())
    async with bus(settings) as opened, AsyncExitStack() as stack:
        found = await beginning(settings, opened.transport, stack)
        store, signer = (None, None) if isinstance(found, str) else found
        how = f"the whole history: {found}" if store is None else "on from the newest snapshot"
        say(f"bus {opened.url}; reading {how}")
        async with admitting(
            settings, opened.transport, None, keeps=False, ledger=store, signer=signer
        ) as admission:
            known = sum(len(tree.nodes) for tree in admission.journals.trees.values())
            say(f"answering on port {settings.admission.port}, {known:,} quotas")
            say(f"admission is {announcement_of(settings.admission)}")
            await asyncio.Event().wait()

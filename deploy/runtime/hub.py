"""Many clusters in one place: the hub's NATS mirrors each cluster's history, and the hub writes each to its own ledger.

A mirror has the same events under the same sequences as the cluster's own stream, so the ledger here has the same rows, the
same chain and the same digests as the cluster's own. After a broken link the mirror goes on from its last event. Until then the
cluster has no news here, and the others go on. The hub publishes nothing: a mirror takes no message.

Source: NATS, "Source and Mirror Streams", "JetStream on Leaf Nodes"; docs/install.md, "Many clusters".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from bus.errors import BursarError, BusUnavailableError
from bus.jetstream import JetStream, require_safe
from bus.private_files import own_folder, replace
from bus.sharing import SharedReading
from bus.streams import mirror
from bus.waiting import beside
from deploy.errors import SettingsError
from deploy.logs import follow
from deploy.runtime.anchor_places import below
from deploy.runtime.bootstrap import OwnLedgerWriter, first_error
from deploy.runtime.clusters import FOLDER, STATE, ClusterLink
from deploy.runtime.guarding import settle
from deploy.runtime.ledgers import held_ledger
from deploy.runtime.service import Screen
from deploy.settings.shape import LedgerSettings, Settings

#: Between two looks at the mirrors.
LOOK_SECONDS = 2.0

_log = logging.getLogger(__name__)


async def follow_clusters(settings: Settings, screen: Screen) -> None:
    """Mirror every cluster of the settings and write its ledger, until cancelled. Raises SettingsError, UnsafeBusError.

    An error that ends one cluster's ledger is kept in the state and shown. The others go on. The next start tries it again.
    """
    if settings.bus.is_embedded or not settings.hub.clusters:
        raise SettingsError(
            "`bursar hub` needs a NATS of its own (--bus nats://…) and `hub.clusters`: docs/install.md"
        )
    own_folder(settings.data)
    links = {name: ClusterLink(domain) for name, domain in sorted(settings.hub.clusters.items())}
    async with AsyncExitStack() as stack:
        for name, link in links.items():
            await stack.enter_async_context(beside(_followed(settings, name, link, screen)))
        await stack.enter_async_context(beside(_write_state(settings.data, links)))
        await _ended(links.values())


async def _ended(links: Iterable[ClusterLink]) -> None:
    """Return when no cluster is followed any more."""
    while not all(link.trouble for link in links):
        await asyncio.sleep(LOOK_SECONDS)
    raise SettingsError("no cluster is followed any more: `bursar clusters` says why")


async def _followed(settings: Settings, name: str, link: ClusterLink, screen: Screen) -> None:
    """One cluster's history, from its mirror into its ledger."""
    url, credentials = settings.bus.address
    stream = mirror(name, link.domain, replicas=settings.bus.replicas)
    own = cluster_settings(settings, name)
    try:
        bus = await JetStream.connect(url, stream, credentials=credentials, tls=settings.bus.tls)
        try:
            require_safe(await bus.guard(*settings.bus.monitors))
            await settle(bus)
            with held_ledger(own, "hub") as (store, lock):
                writer = OwnLedgerWriter(own, store, SharedReading(bus), lock)
                follow(lambda: writer.sequence)
                screen.tell(f"cluster {name}: its ledger goes on from event {writer.sequence:,}")
                async with beside(writer.run()), beside(_looked_at(bus, link, writer)):
                    await asyncio.Event().wait()
        finally:
            await bus.close()
    except* (BursarError, SQLAlchemyError, OSError) as group:
        # Task groups beside the body raise exception groups.
        link.trouble = str(first_error(group))
        screen.tell(f"cluster {name}: {link.trouble}")


async def _looked_at(bus: JetStream, link: ClusterLink, writer: OwnLedgerWriter) -> None:
    heard: float | None = None
    while True:
        try:
            last = await bus.original()
            heard = time.monotonic()
            link.lag = max(last - writer.sequence, 0)
        except BusUnavailableError as error:
            _log.info("the link is down: %s", error)
        link.projected = writer.sequence
        link.quiet_seconds = -1.0 if heard is None else time.monotonic() - heard
        await asyncio.sleep(LOOK_SECONDS)


async def _write_state(data: Path, links: dict[str, ClusterLink]) -> None:
    """Keep the state in a file, for ``bursar clusters`` of another process."""
    while True:
        try:
            replace(data / STATE, msgspec.json.encode(links))
        except OSError as error:
            # A full disk ends no cluster's ledger but its own; `bursar clusters` notices the old file.
            _log.warning("what `bursar clusters` shows is old: %s", error)
        await asyncio.sleep(LOOK_SECONDS)


def cluster_settings(settings: Settings, name: str) -> Settings:
    """The settings of one cluster's ledger."""
    cluster = settings.cluster.model_copy(update={"name": name})
    data, history = settings.data / FOLDER / name, settings.history
    if (folder := history.folder) is not None:
        # Segments of two histories have the same names.
        own = folder / name if isinstance(folder, Path) else f"{folder.rstrip('/')}/{name}"
        history = history.model_copy(update={"folder": own})
    ledger = LedgerSettings(
        anchor=below(settings.ledger.anchor, name), anchor_key=settings.ledger.anchor_key
    )
    return settings.model_copy(
        update={"data": data, "ledger": ledger, "cluster": cluster, "history": history}
    )

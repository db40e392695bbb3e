"""The parts of ``bursar up``, each as a process: watching the cluster, writing the ledger, deciding and acting.

They share a bus and a ledger, and nothing else. Any number of processes may watch: two lose nothing and double nothing.
One process writes the ledger and one acts. Further ones of each are in reserve and take over when it ends
(:mod:`deploy.runtime.locking`). An acting process may be paused or cut off. Before it writes to
the cluster again, it confirms its lock (:class:`HeldLock`).

Source: docs/install.md; docs/architecture.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from bus import embedded
from bus.errors import BursarError
from bus.kube import client
from bus.private_files import own_folder
from bus.waiting import beside
from deploy.errors import AbsentLedgerError, OlderLedgerError, SettingsError
from deploy.runtime.admission import Figures, healthy
from deploy.runtime.bootstrap import Bus, OtherLedgerWriter, OwnLedgerWriter, bus, reach
from deploy.runtime.guarding import bus_metrics, guarded, settle
from deploy.runtime.ledger_metrics import LedgerMetrics
from deploy.runtime.ledgers import ledger, reader
from deploy.runtime.locking import ACTING, LEDGER, in_turn
from deploy.runtime.reactors import require_clock, stored, tell_of_reactors
from deploy.runtime.service import (
    Progress,
    Screen,
    deciding,
    keeping_quotas,
    written,
)
from deploy.runtime.source_metrics import source_metrics
from deploy.runtime.watch import following
from deploy.settings.admission import announcement_of
from deploy.settings.load import cluster_access
from deploy.settings.shape import Settings
from projections.engine.heads import Signer
from projections.engine.store import Store, engine

#: Between two searches for a ledger of another process.
ABSENT_SECONDS = 1.0
#: Between two requests to measure the API server's clock.
TIMED_SECONDS = 60.0

_log = logging.getLogger(__name__)


async def write_ledger(settings: Settings, screen: Screen) -> None:
    """Write the ledger until cancelled, in turn with other writing processes."""
    figures: Figures = []
    async with _bus(settings, "ledger") as opened, healthy(settings, figures), AsyncExitStack() as stack:  # fmt: skip
        made = engine(settings.ledger_url)
        stack.callback(made.dispose)
        # In turn: a newer version must change no schema while an older version writes.
        async with in_turn(settings.ledger_url, made, "ledger", LEDGER, screen.tell):
            with ledger(settings) as store:
                await settle(opened.transport)
                writer = OwnLedgerWriter(settings, store, opened.shared)
                screen.tell(writer.signer)
                figures.append(partial(bus_metrics, opened.guard))
                figures.append(metrics := LedgerMetrics(store, writer, settings.sealed_events))
                async with beside(writer.run()), beside(guarded(opened)), beside(metrics.run()):
                    screen.tell(f"writing the ledger from event {writer.sequence:,} on")
                    await asyncio.Event().wait()


async def watch_cluster(settings: Settings, screen: Screen) -> None:
    """Follow the cluster until cancelled, beside other watching processes. Raises WrongClockError."""
    require_clock()
    access = _access(settings)
    figures: Figures = []
    async with _bus(settings, "watch") as opened, healthy(settings, figures):
        async with _existing(settings, screen, is_read_only=True) as store:
            await _caught_up(store, opened, screen)
            replica = await stored(store, Signer(settings.signing_key), settings.cluster.name)
            async with (
                following(settings, access, opened.transport, store, replica.cluster_state) as followed,
                beside(guarded(opened)),
            ):  # fmt: skip
                figures.append(partial(source_metrics, followed.states))
                figures.append(partial(bus_metrics, opened.guard))
                await opened.transport.subscribe(_topic(settings), followed.relist)
                progress = Progress(stage="following", sources=followed.states)
                async with written(settings, progress):
                    screen.tell(f"following {len(followed.states)} kinds of objects")
                    await asyncio.Event().wait()


async def act(settings: Settings, screen: Screen) -> None:
    """Keep the quotas, decide and act until cancelled, in turn with other acting processes. Raises WrongClockError."""
    require_clock()
    access = _access(settings)
    settings.admission.require_authenticated()
    figures: Figures = []
    shown_here = None if settings.admission.health_port is None else figures
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(_bus(settings, "act"))
        await stack.enter_async_context(healthy(settings, figures))
        store = await stack.enter_async_context(_existing(settings, screen))
        lock = await stack.enter_async_context(
            in_turn(settings.ledger_url, store.engine, "act", ACTING, screen.tell)
        )
        await _caught_up(store, opened, screen)
        replica = await stored(store, Signer(settings.signing_key), settings.cluster.name)
        cluster = await client.connect(access, trust_env=settings.cluster.trust_env)
        stack.push_async_callback(cluster.close)
        cluster.fence = lock.confirm
        await _timed(cluster)
        await stack.enter_async_context(beside(_timing(cluster)))
        await stack.enter_async_context(beside(guarded(opened)))
        asked = asyncio.Queue[str]()
        await stack.enter_async_context(beside(_asking(opened, _topic(settings), asked)))
        more: Figures = [partial(bus_metrics, opened.guard)]
        progress = Progress(stage="following", guard=opened.guard)
        screen.tell(f"admission is {announcement_of(settings.admission)}")
        keeping = keeping_quotas(
            settings, opened, store, cluster, asked.put_nowait, more, progress, shown_here
        )
        trees = await stack.enter_async_context(keeping)
        await stack.enter_async_context(
            deciding(settings, opened, store, cluster, trees, more, progress, replica)
        )
        tell_of_reactors(settings, screen.tell)
        await stack.enter_async_context(written(settings, progress))
        screen.tell("acting")
        await asyncio.Event().wait()


async def _timing(cluster: client.KubeCluster) -> None:
    """Measure the API server's clock repeatedly: decisions use it, and an acting process lists no objects to learn it."""
    while True:
        await asyncio.sleep(TIMED_SECONDS)
        await _timed(cluster)


async def _timed(cluster: client.KubeCluster) -> None:
    """Any answer measures it, a refusal too; none leaves the clock as it was."""
    try:
        await cluster.page("/api/v1/namespaces", limit=1, metadata_only=True)
    except BursarError as error:
        _log.warning("the API server's clock is not measured: %s", error)


async def _asking(opened: Bus, topic: str, asked: asyncio.Queue[str]) -> None:
    """Ask the watching processes for complete lists of some kinds."""
    while True:
        await opened.transport.announce(topic, await asked.get())


def _topic(settings: Settings) -> str:
    return f"relist-{settings.cluster.name}"


@asynccontextmanager
async def _bus(settings: Settings, part: str) -> AsyncIterator[Bus]:
    """A bus of its own server, so it outlives this process. Raises SettingsError for an embedded bus."""
    if settings.bus.is_embedded and embedded.running(settings.data) is None:
        raise SettingsError(
            f"`bursar {part}` needs a bus of its own (--bus nats://…): the bundled one is a part of `bursar up`"
        )
    async with bus(settings) as opened:
        yield opened


@asynccontextmanager
async def _existing(
    settings: Settings, screen: Screen, *, is_read_only: bool = False
) -> AsyncIterator[Store]:
    """The ledger of another process; waits until it was made and is of this version. Raises LedgerNewerError."""
    waits = False
    while True:
        try:
            (await asyncio.to_thread(reader, settings)).dispose()
            break
        except (AbsentLedgerError, OlderLedgerError) as error:
            if not waits:
                screen.tell(f"waiting for `bursar ledger`: {error}")
            waits = True
        await asyncio.sleep(ABSENT_SECONDS)
    own_folder(settings.data)
    made = engine(settings.ledger_url, read_only=is_read_only)
    try:
        yield Store(made)
    finally:
        made.dispose()


async def _caught_up(store: Store, opened: Bus, screen: Screen) -> None:
    """Return when the ledger holds every event published so far. Raises StalledError if no process writes it for a minute."""
    head = await opened.transport.head()
    writer = OtherLedgerWriter(store, "`bursar ledger`")
    screen.tell(f"bus {opened.url}; waiting for event {head.last_sequence:,} in the ledger")
    async with beside(writer.run()):
        await reach(writer, head.last_sequence)


def _access(settings: Settings) -> client.Access:
    access = cluster_access(settings)
    if access is None:
        raise SettingsError("no cluster found: no kubeconfig and no service account")
    return access

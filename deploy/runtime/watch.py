"""Follows a cluster: one reflector for each kind of object, started with the objects of the history.

A missing permission does not end Bursar: the other kinds go on, the trouble is shown, and it is tried again.

Source: docs/architecture.md; docs/wrong-input.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import sqlalchemy as sa

from bus.clock import SystemClock
from bus.envelope import Event
from bus.errors import PermissionDeniedError
from bus.kube import client
from bus.kube.watch.contract import NotInstalledError, ReflectorSettings, ReflectorState, Source
from bus.kube.watch.poller import Poller
from bus.kube.watch.reflector import Reflector
from bus.sources.catalogue import (
    NAMESPACES,
    NODE_METRICS,
    NODE_USAGE,
    PODS,
    SOURCES,
    WORKLOADS,
)
from bus.sources.node_usage import MEASURED
from bus.transport import Transport
from bus.waiting import ended
from deploy.settings.shape import Settings
from projections import namespaces, workloads
from projections.cluster import POD, ClusterState
from projections.engine.store import Store
from reactors.catalogue import REACTORS

#: Between two attempts after a permission stayed missing.
DENIED_SECONDS = 60.0
#: Between two checks for an absent custom kind: one small request each.
ABSENT_SECONDS = 10.0
#: At most, between two publishes of objects needed at once by a reactor: a third of the usual time.
PROMPT_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Following(msgspec.Struct, frozen=True):
    """A followed cluster."""

    cluster: client.KubeCluster
    #: By source.
    states: dict[str, ReflectorState]
    reflectors: dict[str, Reflector | Poller]

    def relist(self, kind: str) -> None:
        """Ask for a complete list of a kind: something waits for one."""
        for source in SOURCES:
            # The list fact of pods has a type of its own, without a kind.
            is_meant = source.kind == kind or (source is PODS and kind == POD)
            if is_meant and source.name in self.reflectors:
                self.reflectors[source.name].relist("settle")


@asynccontextmanager
async def following(
    settings: Settings,
    access: client.Access,
    transport: Transport,
    store: Store,
    state: ClusterState,
) -> AsyncIterator[Following]:
    """Follow the cluster at ``access`` while the body runs. ``state``: see :func:`known`."""
    cluster = await client.connect(access, trust_env=settings.cluster.trust_env)
    try:
        reflectors: dict[str, Reflector | Poller] = {}
        name = settings.cluster.name

        def emptied(event: Event) -> None:
            # Pods of a deleted namespace may end without an event of their own.
            reflectors[PODS.name].relist("namespace")

        sources = followed(settings)
        for source in sources:
            follower = Poller if source.polling is not None else Reflector
            reflectors[source.name] = follower(
                source,
                cluster,
                transport,
                cluster.clock,
                name=name,
                labels=settings.observed(),
                settings=paced(settings, source),
                known=await asyncio.to_thread(known, state, store, source, name),
                vanished=emptied if source is NAMESPACES else None,
            )
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(_follow(source, reflectors[source.name]), name=source.name)
                for source in sources
            ]
            found = {name: reflector.state for name, reflector in reflectors.items()}
            try:
                yield Following(cluster, found, reflectors)
            finally:
                await ended(*running)
    finally:
        await cluster.close()


def followed(settings: Settings) -> list[Source]:
    """All sources, except on-demand ones without a reading policy in these settings."""
    asked = {
        kind for mode, policy in settings.wanted.values() if mode != "off" for kind in policy.follows
    }  # fmt: skip
    return [one for one in SOURCES if not one.on_demand or one.kind in asked]


def paced(settings: Settings, source: Source) -> ReflectorSettings:
    """How long a reflector waits."""
    usual = ReflectorSettings(relist_seconds=settings.cluster.relist_seconds)
    kind, wanted = POD if source is PODS else source.kind, settings.wanted
    hurries = (one.name for one in REACTORS if kind in one.hears_at_once)
    if any(name in wanted and wanted[name][0] == "on" for name in hurries):
        return msgspec.structs.replace(usual, linger_seconds=PROMPT_SECONDS, is_urgent=True)
    return usual


async def _follow(source: Source, reflector: Reflector | Poller) -> None:
    while True:
        try:
            await reflector.run()
        except PermissionDeniedError as error:
            reflector.state.trouble = str(error)
            _log.error("%s are not followed: %s", source.name, error)
            await asyncio.sleep(DENIED_SECONDS)
        except NotInstalledError as error:
            # A custom kind may be installed at any time; of the others it means a wrong address.
            reflector.state.absent_us = SystemClock().now_us()
            reflector.state.trouble = "" if source.is_optional else str(error)
            await asyncio.sleep(ABSENT_SECONDS if source.is_optional else DENIED_SECONDS)
            reflector.relist("not installed")


def known(state: ClusterState, store: Store, source: Source, cluster: str) -> dict[str, str]:
    """Uid to the newest resourceVersion in the history, for all existing objects.

    ``state`` is folded from the history of ``cluster``, and ``store`` is the ledger, both up to the same event.
    """
    if source.kind in WORKLOADS:
        table = workloads.workloads
        query = sa.select(table).where(
            table.c.cluster == cluster, table.c.vanished == 0, table.c.kind == source.kind
        )
        chains = [workloads.codec.row(row) for row in store.select(query)]
        # A fact of an older version has no demand: the object is published again, with its demand.
        return {row.uid: row.history[-1][0] for row in chains if row.history and row.asked}
    if source is NAMESPACES:
        # The state knows namespaces by name alone.
        table = namespaces.namespaces
        query = sa.select(table).where(table.c.cluster == cluster, table.c.vanished == 0)
        rows = [namespaces.codec.row(row) for row in store.select(query)]
        newest = [row.history[-1] for row in rows if row.history]
        return {value[0]: version for version, _, value in newest}
    if source in (NODE_METRICS, NODE_USAGE):
        # Both measure nodes, each by another agent.
        found, is_usage = state.versions(NODE_METRICS.kind), source is NODE_USAGE
        return {uid: one for uid, one in found.items() if uid.startswith(MEASURED) is is_usage}
    return state.versions(POD if source is PODS else source.kind)


def states(found: dict[str, ReflectorState]) -> dict[str, dict[str, object]]:
    """The states as plain values, for the state file of ``bursar status``."""
    return {
        name: {**msgspec.structs.asdict(state), "relists": dict(state.relists)}
        for name, state in found.items()
    }

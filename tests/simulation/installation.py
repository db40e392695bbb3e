"""Bursar as `bursar up` puts it together, in one loop: sources, webhook, keeper, reactors, ledger; on a bus in memory."""

import itertools
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bus.clock import Clock
from bus.events.policies import Mode
from bus.kube import kinds
from bus.kube.watch.contract import ReflectorSettings
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.sources.catalogue import PODS, SOURCES
from bus.waiting import beside
from deploy.runtime.reactors import acting
from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.cluster import POD
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from reactors.admitting import following
from reactors.catalogue import REACTORS
from reactors.culling.effects import effects_by
from reactors.culling.probing import Prober
from reactors.culling.reactor import reactor as culling
from reactors.engine.adapters import Adapters, EffectorTable
from reactors.engine.settings import ReactorPolicy
from reactors.queue.hold import Hold
from reactors.webhook.review import Review
from tests.simulation.apiserver import (
    CONTROLLERS,
    SERVED,
    ApiServer,
    Change,
    Json,
    RefusedError,
    patched,
)
from tests.simulation.notebooks import NotebookServers

NAME = "default"
Wanted = Mapping[str, tuple[Mode, ReactorPolicy]]


class Installation:
    """One Bursar on one cluster; enter it again after it ended, and it goes on from its history."""

    def __init__(
        self, api: ApiServer, clock: Clock, servers: NotebookServers, wanted: Wanted, folder: Path
    ) -> None:
        self.transport = MemoryTransport(created_us=clock.now_us())
        self._api = api
        self._clock = clock
        self._servers = servers
        self._wanted = wanted
        self._engine = engine(f"sqlite:///{folder / 'ledger.db'}")
        upgrade(self._engine)
        self._reviews = itertools.count(1)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Installation":
        stack, transport, clock = self._stack, self.transport, self._clock
        store = Store(self._engine)
        await stack.enter_async_context(
            beside(Runner(store, Folder(MODEL, store), transport).run())
        )
        reflectors = {
            source.kind or source.name: Reflector(
                source, self._api, transport, clock, name=NAME,
                settings=ReflectorSettings(), jitter=lambda: 0.5,
            )
            for source in SOURCES
            if tuple(source.path.rsplit("/", 1)) in SERVED
        }  # fmt: skip
        for reflector in reflectors.values():
            await stack.enter_async_context(beside(reflector.run()))

        def relist(kind: str) -> None:
            reflectors[PODS.name if kind == POD else kind].relist("settle")

        self._admission = await stack.enter_async_context(
            following(
                transport, clock, cluster=NAME, source="keeper/simulated", keeps=True,
                relist=relist, starts=self._api,
            )
        )  # fmt: skip
        self._hold = Hold(self._admission.journals, self._admission.view)
        self._api.review = self._review
        await self._act(stack, store)
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._api.review = None
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    async def _act(self, stack: AsyncExitStack, store: Store) -> None:
        def simulated(adapters: Adapters) -> EffectorTable:
            prober = Prober(
                adapters.replica.states[culling.name], self._api, self.transport, self._clock,
                name=NAME, ask=self._servers,
            )  # fmt: skip
            return effects_by(adapters, prober, adapters.policy.check_period_seconds)

        reactors = [replace(one, effects=simulated) if one is culling else one for one in REACTORS]
        await stack.enter_async_context(
            acting(
                self.transport, self._api, self._wanted,
                name=NAME, clock=self._clock, reactors=reactors, trees=self._admission.keeper, ledger=store,
            )
        )  # fmt: skip

    async def _review(self, change: Change) -> Json:
        """As the API server asks: first whether it has to be changed, then whether it may be."""
        key = change.key
        group, _, version = key.root.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
        kind = kinds.served(group, version, key.plural)
        if kind is None and key.plural not in ("bizgroupresourcequotas", "resourceclaims"):
            return change.new
        new = change.new
        mutated = await self._hold(self._asked(change, new, group, version))
        if mutated.patch:
            new = patched(new, json.loads(mutated.patch))
        answer = await self._admission.handler(self._asked(change, new, group, version))
        if not answer.allowed:
            raise RefusedError(answer.message)
        return new

    def _asked(self, change: Change, new: Json, group: str, version: str) -> Review:
        key, is_system = change.key, change.user == CONTROLLERS
        return Review(
            uid=f"review-{next(self._reviews)}",
            operation="UPDATE" if change.old else "CREATE",
            group=group, version=version, resource=key.plural, subresource=change.subresource,
            kind=SERVED[(key.root, key.plural)], namespace=key.namespace, name=key.name,
            user=change.user,
            groups=("system:serviceaccounts", "system:serviceaccounts:kube-system") if is_system else (),
            dry_run=False, object=new, old_object=change.old, options=None,
        )  # fmt: skip

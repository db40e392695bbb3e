"""The contract between a process and a reactor's effects: adapters in, effectors and background tasks out."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from bus.clock import Clock
from bus.events.admissions import QuotaSpec
from bus.events.decisions import Decision, Result
from bus.events.policies import Mode
from bus.transport import Transport
from bus.waiting import Moves
from projections.engine.store import Store
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.tree import Fact as Entry
from reactors.engine.replica import Replica
from reactors.engine.settings import ReactorPolicy, ReactorSettings

Json = dict[str, Any]


class Cluster(Protocol):
    """The part of :class:`bus.kube.client.KubeCluster` needed by effects, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...

    async def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """A new object in the collection at ``path``."""
        ...

    async def apply(self, path: str, body: Mapping[str, Any]) -> Json:
        """Server-side apply of ``body`` at ``path``."""
        ...

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """JSON merge patch."""
        ...

    async def delete(self, path: str, *, uid: str) -> Json:
        """Delete the object at ``path`` if it still has this uid."""
        ...

    async def evict(self, namespace: str, pod: str, *, uid: str) -> Json:
        """Ask for the pod's end."""
        ...

    async def bind(
        self, namespace: str, pod: str, *, uid: str, node: str, annotations: Mapping[str, str]
    ) -> None:
        """Give the pod its node."""
        ...


class Effector(Protocol):
    """Does one kind of decision, at most once for each, and never to another object than its target."""

    async def act(self, decision: Decision) -> tuple[Result, str]:
        """The outcome, and a message about it.

        Checks first whether it is done already. May raise the errors of :class:`bus.kube.client.KubeCluster`.
        """
        ...


class QuotaObject(Protocol):
    """A quota's object as it was seen last."""

    @property
    def uid(self) -> str:
        """Its uid."""
        ...

    @property
    def namespace(self) -> str:
        """Its namespace; "" for kinds without one."""
        ...

    @property
    def spec(self) -> QuotaSpec | None:
        """Its limits; None = it was deleted."""
        ...


class QuotaTrees(Protocol):
    """The quota trees of the cluster, in the process that keeps their journals."""

    @property
    def trees(self) -> Mapping[str, Tree]:
        """By name."""
        ...

    @property
    def quotas(self) -> Mapping[tuple[str, str], QuotaObject]:
        """By kind and name."""
        ...

    async def say(self, tree: Tree, make: Callable[[TreeOverlay], Entry | None]) -> None:
        """Append the entry of ``make`` on top of the current tree, if it makes one."""
        ...


class Adapters(msgspec.Struct, frozen=True, kw_only=True):
    """The connections of one reactor's effects to the world, and the operator's settings for them."""

    cluster: Cluster
    transport: Transport
    clock: Clock
    #: The known state; effects read it and never change it.
    replica: Replica
    settings: ReactorSettings
    mode: Mode
    #: None for a reactor without one.
    policy: ReactorPolicy | None
    #: None: this process keeps no quotas, or writes no ledger.
    trees: QuotaTrees | None = None
    ledger: Store | None = None
    #: Whether the status of ElasticQuotas is written.
    writes_elastic: bool = True
    #: Moves when more was read.
    moves: Moves


class EffectorTable(msgspec.Struct, frozen=True):
    """Effectors by wire type of their decisions; and endless tasks beside the machine, unless the reactor is off."""

    effectors: Mapping[str, Effector] = {}
    beside: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = ()
    #: Current obstacles of these effects, in sentences for people.
    trouble: Callable[[], Iterable[str]] = tuple

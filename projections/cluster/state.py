"""The cluster as last observed, folded from the history in memory: shared by every reactor of a process.

Pods, workloads, nodes, namespaces, quotas, priority classes and storage; results derived from them (charges, idle
times) belong to each reactor. Decisions run between two events in one thread, so the state is its own snapshot. It
holds observations only: a reactor's assumptions are its own, beside it (docs/architecture.md, "What is assumed").

Rules of order, deletions and lists: :mod:`projections.cluster.objects`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec

from bus.envelope import Event
from bus.events.devices import (
    ResourceClaimObserved,
    ResourceClaimVanished,
)
from bus.events.namespaces import NamespaceObserved
from bus.events.observations import ObjectsListed
from bus.events.pods import (
    NATIVE,
    PLUGINS,
    SIGS,
    VOLCANO,
    Owner,
    PodsListed,
)
from bus.events.vocabulary import Fact
from bus.kube.kinds import Ask
from bus.kube.kinds.runtime_use import CLUSTER_KIND, NAMESPACED_KIND
from projections import timelines
from projections.cluster import devices, rows
from projections.cluster.claiming import Claiming
from projections.cluster.devices import (
    ClaimTemplate,
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    NodeDevices,
    Scv,
)
from projections.cluster.index import Index
from projections.cluster.loads import NodeLoad, NodeTopology
from projections.cluster.migrations import Migration
from projections.cluster.objects import Change, Gone, ObjectStore, SavedStore, share
from projections.cluster.observed import OBSERVED, VANISHED
from projections.cluster.pod_terms import DisruptionBudget, PodGroup, Service
from projections.cluster.reservations import Reservation
from projections.cluster.rows import (
    POD,
    Namespace,
    Node,
    Pod,
    PriorityClass,
    Quota,
    Workload,
)
from projections.cluster.runtimes import Runtimes, TrainingRuntime
from projections.cluster.volumes import CsiNode, Pvc, StorageClass, Volume
from projections.engine.parts import Part
from projections.quota_trees.shape import BUSINESS, ELASTIC

#: Longest followed chain of controllers: users write the references, possibly in circles.
DEPTH = 8

_NODE, _CLASS = Node.kind, PriorityClass.kind
_BUDGET, _SCV = DisruptionBudget.kind, Scv.kind


class SavedCluster(msgspec.Struct):
    """The part of a snapshot for the state of a cluster."""

    _pods: SavedStore[Pod]
    _workloads: SavedStore[Workload]
    _nodes: SavedStore[Node]
    _quotas: SavedStore[Quota]
    _classes: SavedStore[PriorityClass]
    _budgets: SavedStore[DisruptionBudget]
    _scvs: SavedStore[Scv]
    _loads: SavedStore[NodeLoad]
    _node_devices: SavedStore[NodeDevices]
    _topologies: SavedStore[NodeTopology]
    _claims: SavedStore[Pvc]
    _volumes: SavedStore[Volume]
    _storage_classes: SavedStore[StorageClass]
    _csi_nodes: SavedStore[CsiNode]
    _device_classes: SavedStore[DeviceClass]
    _claim_templates: SavedStore[ClaimTemplate]
    _device_claims: SavedStore[DeviceClaim]
    _slices: SavedStore[DeviceSlice]
    _pod_groups: SavedStore[PodGroup]
    _reservations: SavedStore[Reservation]
    _migrations: SavedStore[Migration]
    _services: SavedStore[Service]
    _runtimes: SavedStore[TrainingRuntime]
    cards_seen: dict[str, str]
    namespaces: dict[str, Namespace]


class ClusterState(Part):
    """Of one cluster: the caller folds that cluster's events only.

    Rows are read, never written.
    """

    Saved = SavedCluster
    derived = frozenset(
        {
            "_changes", "_folded", "index", "_stores", "pods", "workloads", "nodes", "quotas", "priority_classes",
            "disruption_budgets", "scvs", "claims", "volumes", "storage_classes", "csi_nodes",
            "device_classes", "claim_templates", "device_claims", "slices", "pod_groups", "loads", "claiming", "reservations",
            "migrations", "services", "runtimes",
        }
    )  # fmt: skip

    #: The facts with an effect on it.
    reads: ClassVar[tuple[type[Fact], ...]]

    def __init__(self) -> None:
        self._changes: list[Change] = []
        #: The last folded event.
        self._folded: Event | None = None
        self.index = Index()
        self._pods: ObjectStore[Pod] = ObjectStore(self._changes)
        self._workloads: ObjectStore[Workload] = ObjectStore(self._changes)
        self._nodes: ObjectStore[Node] = ObjectStore(self._changes)
        self._quotas: ObjectStore[Quota] = ObjectStore(self._changes)
        self._classes: ObjectStore[PriorityClass] = ObjectStore(self._changes)
        self._budgets: ObjectStore[DisruptionBudget] = ObjectStore(self._changes)
        self._scvs: ObjectStore[Scv] = ObjectStore(self._changes)
        self._loads: ObjectStore[NodeLoad] = ObjectStore(self._changes)
        self._node_devices: ObjectStore[NodeDevices] = ObjectStore(self._changes)
        self._topologies: ObjectStore[NodeTopology] = ObjectStore(self._changes)
        self._claims: ObjectStore[Pvc] = ObjectStore(self._changes)
        self._volumes: ObjectStore[Volume] = ObjectStore(self._changes)
        self._storage_classes: ObjectStore[StorageClass] = ObjectStore(self._changes)
        self._csi_nodes: ObjectStore[CsiNode] = ObjectStore(self._changes)
        self._device_classes: ObjectStore[DeviceClass] = ObjectStore(self._changes)
        self._claim_templates: ObjectStore[ClaimTemplate] = ObjectStore(self._changes)
        self._device_claims: ObjectStore[DeviceClaim] = ObjectStore(self._changes)
        self._slices: ObjectStore[DeviceSlice] = ObjectStore(self._changes)
        self._pod_groups: ObjectStore[PodGroup] = ObjectStore(self._changes)
        self._reservations: ObjectStore[Reservation] = ObjectStore(self._changes)
        self._migrations: ObjectStore[Migration] = ObjectStore(self._changes)
        self._services: ObjectStore[Service] = ObjectStore(self._changes)
        self._runtimes: ObjectStore[TrainingRuntime] = ObjectStore(self._changes)
        self._stores: dict[str, ObjectStore[Any]] = {
            POD: self._pods, _NODE: self._nodes, _CLASS: self._classes, _BUDGET: self._budgets,
            _SCV: self._scvs, BUSINESS: self._quotas, ELASTIC: self._quotas, Pvc.kind: self._claims,
            Volume.kind: self._volumes, StorageClass.kind: self._storage_classes, CsiNode.kind: self._csi_nodes,
            DeviceClass.kind: self._device_classes, ClaimTemplate.kind: self._claim_templates,
            DeviceClaim.kind: self._device_claims, DeviceSlice.kind: self._slices, NodeLoad.kind: self._loads,
            NodeDevices.kind: self._node_devices,
            NodeTopology.kind: self._topologies, Reservation.kind: self._reservations,
            Migration.kind: self._migrations, Service.kind: self._services,
            **dict.fromkeys((NATIVE, SIGS, PLUGINS, VOLCANO), self._pod_groups),
            **dict.fromkeys((NAMESPACED_KIND, CLUSTER_KIND), self._runtimes),
        }  # fmt: skip
        #: Existing objects, by uid.
        self.pods = self._pods.rows
        self.workloads = self._workloads.rows
        self.nodes = self._nodes.rows
        self.quotas = self._quotas.rows
        self.priority_classes = self._classes.rows
        self.disruption_budgets = self._budgets.rows
        self.scvs = self._scvs.rows
        self.loads = self._loads.rows
        self.claims = self._claims.rows
        self.volumes = self._volumes.rows
        self.storage_classes = self._storage_classes.rows
        self.csi_nodes = self._csi_nodes.rows
        self.device_classes = self._device_classes.rows
        self.claim_templates = self._claim_templates.rows
        self.device_claims = self._device_claims.rows
        self.slices = self._slices.rows
        self.pod_groups = self._pod_groups.rows
        self.reservations = self._reservations.rows
        self.migrations = self._migrations.rows
        self.services = self._services.rows
        #: Classes with an allocated card in a claim, and their counting resource.
        self.cards_seen: dict[str, str] = {}
        self.runtimes = Runtimes(self.workloads, self._runtimes.rows, self.named)
        self.claiming = Claiming(
            self.pods, self.workloads, self.device_classes, self.device_claims, self.claim_templates,
            self.slices, self.cards_seen, self.named,
        )  # fmt: skip
        #: By name, gone ones included: their labels stay valid.
        self.namespaces: dict[str, Namespace] = {}

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event. Raises EnvelopeError for a pod with invalid resources; then nothing was changed."""
        self._changes.clear()
        self._folded = event
        fold = _FOLDS.get(type(fact))
        if fold is None:
            return
        fold(self, fact, event.time_us)
        for change in self._changes:
            before, after = change.before, change.after
            if not isinstance(before, Namespace) and not isinstance(after, Namespace):
                self.index.put(before, after, self._store(change.kind).rows)
        self.runtimes.follow(self._changes)
        self.claiming.follow(self._changes)

    def restore(self, saved: SavedCluster) -> None:
        """Load the saved state, in a new object. The index is computed from the rows."""
        super().restore(saved)
        share((*self.pods.values(), *self.workloads.values()))
        stores = {id(one): one for one in (*self._stores.values(), self._workloads)}
        for store in stores.values():
            for row in store.rows.values():
                self.index.put(None, row, store.rows)
        self.runtimes.restore()
        self.claiming.restore()

    def changes(self, event: Event) -> Sequence[Change]:
        """The changes of ``event``, in order, if it is the last folded one; nothing otherwise."""
        return self._changes if event is self._folded else ()

    def _observed(self, fact: Any, time_us: int) -> None:
        kind, make = OBSERVED[type(fact)]
        kind, row = kind or fact.kind, partial(make, fact, time_us)
        self._store(kind).observed(kind, fact.uid, fact.resource_version, time_us, row)

    def _vanished(self, fact: Any, time_us: int) -> None:
        kind = VANISHED[type(fact)] or fact.kind
        # Objects of the whole cluster have no namespace.
        namespace = getattr(fact, "namespace", "")
        self._store(kind).vanished(kind, fact.uid, namespace, fact.name, time_us)

    def _claim_observed(self, fact: ResourceClaimObserved, time_us: int) -> None:
        self._observed(fact, time_us)
        self.claiming.given(fact)
        if not fact.is_generated or fact.uid in self.workloads:
            row = partial(devices.direct_claim, fact, time_us)
            self._workloads.observed(
                DeviceClaim.kind, fact.uid, fact.resource_version, time_us, row
            )

    def _claim_vanished(self, fact: ResourceClaimVanished, time_us: int) -> None:
        self._vanished(fact, time_us)
        if not fact.is_generated or fact.uid in self.workloads:
            self._workloads.vanished(DeviceClaim.kind, fact.uid, fact.namespace, fact.name, time_us)

    def _pods_listed(self, fact: PodsListed, time_us: int) -> None:
        self._pods.listed(POD, fact, time_us)

    def _listed(self, fact: ObjectsListed, time_us: int) -> None:
        self._store(fact.kind).listed(fact.kind, fact, time_us)
        if fact.kind == DeviceClaim.kind:
            self._workloads.listed(fact.kind, fact, time_us)

    def _namespace(self, fact: NamespaceObserved, time_us: int) -> None:
        known = self.namespaces.get(fact.name)
        before = None if known is None else (known.version, known.seen_us)
        if timelines.replaces(fact.resource_version, time_us, before):
            found = self.namespaces[fact.name] = rows.namespace(fact, time_us)
            self._changes.append(Change(Namespace.kind, fact.name, known, found))

    def _store(self, kind: str) -> ObjectStore[Any]:
        return self._stores.get(kind, self._workloads)

    # questions

    def chain(self, owner: Owner | None) -> list[Workload] | None:
        """The controllers of an object with the controller ``owner``, the nearest first; None for a chain with an
        unobserved link.
        """
        found: list[Workload] = []
        while owner is not None:
            above = self.workloads.get(owner.uid)
            if above is None or len(found) == DEPTH:
                return None
            found.append(above)
            owner = above.owner
        return found

    def top(self, owner: Owner | None) -> Workload | None:
        """The end of the chain of controllers from ``owner``; None for none, and for a chain with an unobserved link."""
        found = self.chain(owner)
        return found[-1] if found else None

    def asked(self, ask: Ask, namespace: str, uid: str = "") -> Ask:
        """An ask with its training runtime's demand, and the largest allocation of its device claims. ``uid``: of a
        known object.
        """
        return self.claiming.asked(self.runtimes.asked(ask, namespace, uid), namespace)

    def listed_us(self, kind: str) -> int:
        """When the newest complete list of a kind was asked for; 0 = there was none, as where nobody follows it."""
        return self._stores[kind].listed_us(kind)

    def named(self, kind: str, namespace: str, name: str) -> str:
        """The uid of the object of this name; "" for none."""
        return self.index.named(kind, namespace, name)

    def current_nodes(self) -> list[Node]:
        """Every node, of two of one name the newer one."""
        return [one for one in self.nodes.values() if self.named(_NODE, "", one.name) == one.uid]

    def current_node(self, name: str) -> Node | None:
        """The node of this name, of two the newer one; None for none."""
        return self.nodes.get(self.named(_NODE, "", name))

    def current_classes(self) -> list[PriorityClass]:
        """Every priority class, of two of one name the newer one."""
        classes = self.priority_classes.values()
        return [one for one in classes if self.named(_CLASS, "", one.name) == one.uid]

    def current_scvs(self) -> list[Scv]:
        """Every Scv object, of two of one name the newer one."""
        return [one for one in self.scvs.values() if self.named(_SCV, "", one.name) == one.uid]

    def load_of(self, node: str) -> NodeLoad | None:
        """A node's real use; None without a measurement."""
        return self.loads.get(self.named(NodeLoad.kind, "", node))

    def devices_of(self, node: str) -> NodeDevices | None:
        """The devices of a node; None where no agent says them."""
        return self._node_devices.rows.get(self.named(NodeDevices.kind, "", node))

    def topology_of(self, node: str) -> NodeTopology | None:
        """How the CPUs of a node lie; None where nobody says."""
        return self._topologies.rows.get(self.named(NodeTopology.kind, "", node))

    def priority_class(self, name: str) -> PriorityClass | None:
        """A priority class by its name; None for none."""
        return self.priority_classes.get(self.named(_CLASS, "", name))

    def versions(self, kind: str) -> dict[str, str]:
        """Uid to newest resourceVersion, of every existing object of a kind; namespaces are identified by name, and
        not here.
        """
        rows = self._store(kind).rows.values()
        return {row.uid: row.version for row in rows if row.kind == kind}

    def gone(self, uid: str) -> Gone | None:
        """A gone pod or workload; None if unknown."""
        return self._workloads.gone.get(uid) or self._pods.gone.get(uid)


_Fold = Callable[[ClusterState, Any, int], None]
_FOLDS: dict[type[Fact], _Fold] = {
    **dict.fromkeys(OBSERVED, ClusterState._observed),
    **dict.fromkeys(VANISHED, ClusterState._vanished),
    PodsListed: ClusterState._pods_listed,
    ObjectsListed: ClusterState._listed,
    NamespaceObserved: ClusterState._namespace,
    ResourceClaimObserved: ClusterState._claim_observed,
    ResourceClaimVanished: ClusterState._claim_vanished,
}

ClusterState.reads = tuple(_FOLDS)

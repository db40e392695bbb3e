"""The facts with observations or deletions of a cluster's objects, and the makers of their rows. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bus.events.devices import (
    DeviceClassObserved,
    DeviceClassVanished,
    NodeDevicesObserved,
    NodeDevicesVanished,
    ResourceClaimObserved,
    ResourceClaimTemplateObserved,
    ResourceClaimTemplateVanished,
    ResourceClaimVanished,
    ResourceSliceObserved,
    ResourceSliceVanished,
)
from bus.events.migrations import MigrationObserved, MigrationVanished
from bus.events.nodes import (
    NodeMetricObserved,
    NodeMetricVanished,
    NodeObserved,
    NodeTopologyObserved,
    NodeTopologyVanished,
    NodeVanished,
)
from bus.events.pods import (
    DisruptionBudgetObserved,
    DisruptionBudgetVanished,
    PodGroupObserved,
    PodGroupVanished,
    PodObserved,
    PodVanished,
    ReservationObserved,
    ReservationVanished,
)
from bus.events.priorities import PriorityClassObserved, PriorityClassVanished
from bus.events.quotas import QuotaObserved, QuotaVanished
from bus.events.runtimes import TrainingRuntimeObserved, TrainingRuntimeVanished
from bus.events.scvs import ScvObserved, ScvVanished
from bus.events.services import ServiceObserved, ServiceVanished
from bus.events.vocabulary import Fact
from bus.events.volumes import (
    ClaimObserved,
    ClaimVanished,
    CsiNodeObserved,
    CsiNodeVanished,
    StorageClassObserved,
    StorageClassVanished,
    VolumeObserved,
    VolumeVanished,
)
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from projections.cluster import devices, rows, volumes
from projections.cluster.devices import (
    ClaimTemplate,
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    NodeDevices,
    Scv,
    scv,
)
from projections.cluster.loads import NodeLoad, NodeTopology, node_load, node_topology
from projections.cluster.migrations import Migration, migration
from projections.cluster.pod_terms import (
    DisruptionBudget,
    Service,
    disruption_budget,
    pod_group,
    service,
)
from projections.cluster.reservations import Reservation, reservation
from projections.cluster.rows import POD, Node, PriorityClass
from projections.cluster.runtimes import training_runtime
from projections.cluster.volumes import CsiNode, Pvc, StorageClass, Volume

#: Of an observation: the kind of its object, "" = named in the fact; and the maker of the row.
OBSERVED: dict[type[Fact], tuple[str, Callable[..., Any]]] = {
    PodObserved: (POD, rows.pod),
    WorkloadObserved: ("", rows.workload),
    NodeObserved: (Node.kind, rows.node),
    QuotaObserved: ("", rows.quota),
    PriorityClassObserved: (PriorityClass.kind, rows.priority_class),
    DisruptionBudgetObserved: (DisruptionBudget.kind, disruption_budget),
    ScvObserved: (Scv.kind, scv),
    ServiceObserved: (Service.kind, service),
    NodeMetricObserved: (NodeLoad.kind, node_load),
    NodeDevicesObserved: (NodeDevices.kind, devices.node_devices),
    NodeTopologyObserved: (NodeTopology.kind, node_topology),
    ClaimObserved: (Pvc.kind, volumes.claim),
    VolumeObserved: (Volume.kind, volumes.volume),
    StorageClassObserved: (StorageClass.kind, volumes.storage_class),
    CsiNodeObserved: (CsiNode.kind, volumes.csi_node),
    DeviceClassObserved: (DeviceClass.kind, devices.device_class),
    ResourceClaimTemplateObserved: (ClaimTemplate.kind, devices.claim_template),
    ResourceClaimObserved: (DeviceClaim.kind, devices.device_claim),
    ResourceSliceObserved: (DeviceSlice.kind, devices.device_slice),
    PodGroupObserved: ("", pod_group),
    ReservationObserved: (Reservation.kind, reservation),
    MigrationObserved: (Migration.kind, migration),
    TrainingRuntimeObserved: ("", training_runtime),
}
#: Of a deletion: the kind of the gone object, "" = named in the fact.
VANISHED: dict[type[Fact], str] = {
    PodVanished: POD,
    WorkloadVanished: "",
    NodeVanished: Node.kind,
    QuotaVanished: "",
    PriorityClassVanished: PriorityClass.kind,
    DisruptionBudgetVanished: DisruptionBudget.kind,
    ScvVanished: Scv.kind,
    ServiceVanished: Service.kind,
    NodeMetricVanished: NodeLoad.kind,
    NodeDevicesVanished: NodeDevices.kind,
    NodeTopologyVanished: NodeTopology.kind,
    ClaimVanished: Pvc.kind,
    VolumeVanished: Volume.kind,
    StorageClassVanished: StorageClass.kind,
    CsiNodeVanished: CsiNode.kind,
    DeviceClassVanished: DeviceClass.kind,
    ResourceClaimTemplateVanished: ClaimTemplate.kind,
    ResourceClaimVanished: DeviceClaim.kind,
    ResourceSliceVanished: DeviceSlice.kind,
    PodGroupVanished: "",
    ReservationVanished: Reservation.kind,
    MigrationVanished: Migration.kind,
    TrainingRuntimeVanished: "",
}

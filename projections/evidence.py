"""The last observation of each cluster, by kind of object: open runs are known up to there.

One row for each cluster and kind: the newest time of an observation. The greatest of a cluster's rows is *the
moment*, the end of its open runs; later time is unknown. Only observations of sources move it: objects, complete
lists, and a source's heartbeat (``source.heard``). A command, a tick, a decision or a credit is no evidence of a
pod, whatever its time of publication. Samples of notebooks have a row of their own, without effect on a moment: an
answering server shows no other pod.

A row is the maximum over the set of observations, so their order does not matter.

Source: docs/accounting.md, "Time".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.clock import floor_seconds
from bus.envelope import Event
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
from bus.events.namespaces import NamespaceObserved, NamespaceVanished
from bus.events.nodes import (
    NodeMetricObserved,
    NodeMetricVanished,
    NodeObserved,
    NodeTopologyObserved,
    NodeTopologyVanished,
    NodeVanished,
)
from bus.events.notebooks import NotebookSampled
from bus.events.observations import ObjectsListed, SourceHeard
from bus.events.pods import (
    DisruptionBudgetObserved,
    DisruptionBudgetVanished,
    PodGroupObserved,
    PodGroupVanished,
    PodObserved,
    PodsListed,
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
from projections.engine.codec import Codec
from projections.engine.contract import Integer, Key, Projection, row_table

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]

PODS, NOTEBOOKS, OTHERS = "pods", "notebooks", "objects"

#: The kind observed in each fact; :class:`SourceHeard` names it itself.
_KINDS: dict[type[Fact], str] = {
    PodObserved: PODS,
    PodVanished: PODS,
    PodsListed: PODS,
    NodeObserved: "nodes",
    NodeVanished: "nodes",
    NamespaceObserved: "namespaces",
    NamespaceVanished: "namespaces",
    PriorityClassObserved: "priorityclasses",
    PriorityClassVanished: "priorityclasses",
    DisruptionBudgetObserved: "poddisruptionbudgets",
    DisruptionBudgetVanished: "poddisruptionbudgets",
    WorkloadObserved: "workloads",
    WorkloadVanished: "workloads",
    QuotaObserved: "quotas",
    QuotaVanished: "quotas",
    NodeMetricObserved: "nodemetrics",
    NodeMetricVanished: "nodemetrics",
    NodeDevicesObserved: "devices",
    NodeDevicesVanished: "devices",
    NodeTopologyObserved: "noderesourcetopologies",
    NodeTopologyVanished: "noderesourcetopologies",
    ServiceObserved: "services",
    ServiceVanished: "services",
    ScvObserved: "scvs",
    ScvVanished: "scvs",
    PodGroupObserved: "podgroups",
    PodGroupVanished: "podgroups",
    ReservationObserved: "reservations",
    ReservationVanished: "reservations",
    MigrationObserved: "podmigrationjobs",
    MigrationVanished: "podmigrationjobs",
    ClaimObserved: "persistentvolumeclaims",
    ClaimVanished: "persistentvolumeclaims",
    VolumeObserved: "persistentvolumes",
    VolumeVanished: "persistentvolumes",
    StorageClassObserved: "storageclasses",
    StorageClassVanished: "storageclasses",
    CsiNodeObserved: "csinodes",
    CsiNodeVanished: "csinodes",
    ResourceClaimObserved: "resourceclaims",
    ResourceClaimVanished: "resourceclaims",
    ResourceClaimTemplateObserved: "resourceclaimtemplates",
    ResourceClaimTemplateVanished: "resourceclaimtemplates",
    ResourceSliceObserved: "resourceslices",
    ResourceSliceVanished: "resourceslices",
    DeviceClassObserved: "deviceclasses",
    DeviceClassVanished: "deviceclasses",
    TrainingRuntimeObserved: "trainingruntimes",
    TrainingRuntimeVanished: "trainingruntimes",
    ObjectsListed: OTHERS,
    NotebookSampled: NOTEBOOKS,
}
FACTS: tuple[type[Fact], ...] = (*_KINDS, SourceHeard)
#: Facts with an effect on the moment.
MOVING: tuple[type[Fact], ...] = tuple(fact for fact in FACTS if fact is not NotebookSampled)


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The newest observation of one kind of object of one cluster."""

    cluster: str
    kind: str
    observed_us: int
    sequence: int


evidence = row_table(
    "evidence",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("observed_us", Integer, nullable=False),
)


def keys(fact: Fact, event: Event) -> tuple[Key]:
    """One row: (cluster, kind)."""
    kind = fact.resource if isinstance(fact, SourceHeard) else _KINDS[type(fact)]
    return ((event.cluster, kind),)


def fold(row: Evidence | None, fact: Fact, event: Event) -> Evidence:
    """The row after one more observation; an older one changes nothing."""
    if row is not None and event.time_us <= row.observed_us:
        return row
    if row is not None:
        return Evidence(row.cluster, row.kind, event.time_us, event.sequence)
    ((cluster, kind),) = keys(fact, event)
    return Evidence(cluster, kind, event.time_us, event.sequence)


def moments(select: Select) -> dict[str, int]:
    """Cluster to the moment, the end of its open runs, microseconds; an unobserved cluster has none."""
    return _newest(select, evidence.c.kind != NOTEBOOKS)


def newest_s(select: Select) -> dict[str, int]:
    """Cluster to its newest observation, probes of notebooks included, in whole seconds."""
    return {cluster: floor_seconds(us) for cluster, us in _newest(select, sa.true()).items()}


def _newest(select: Select, chosen: sa.ColumnElement[bool]) -> dict[str, int]:
    columns = evidence.c
    query = sa.select(columns.cluster, sa.func.max(columns.observed_us)).where(chosen)
    return {cluster: int(us) for cluster, us in select(query.group_by(columns.cluster))}


def moments_s(select: Select) -> dict[str, int]:
    """As :func:`moments`, in whole seconds."""
    return {cluster: floor_seconds(us) for cluster, us in moments(select).items()}


codec = Codec(Evidence, evidence)

projection = Projection(
    name="evidence",
    version=1,
    table=evidence,
    facts=FACTS,
    keys=keys,
    fold=fold,
    codec=codec,
)

"""The sources of a cluster: one line each, and one for each governed kind."""

from __future__ import annotations

from functools import partial

from bus.events.observations import ObjectsListed
from bus.events.pods import NATIVE, PLUGINS, SIGS, VOLCANO, PodsListed
from bus.kube.crds.quotas import KIND, PATH, PLURAL
from bus.kube.kinds import Kind
from bus.kube.kinds.runtime_use import CLUSTER_KIND, GROUP, NAMESPACED_KIND
from bus.kube.kinds.table import GOVERNED, MPIJOB, POD
from bus.kube.watch.contract import Polling, Source
from bus.sources import (
    claims,
    cpus,
    csi_nodes,
    devices,
    disruptions,
    loads,
    migrations,
    namespaces,
    node_devices,
    node_usage,
    nodes,
    partial_claims,
    podgroups,
    pods,
    priorities,
    quotas,
    reservations,
    runtimes,
    scvs,
    services,
    storage_classes,
    volumes,
    workloads,
)

PODS = Source(
    "pods",
    "/api/v1/pods",
    pods.translate,
    every_version=True,
    list_fact=PodsListed,
    says_every_list=True,
    is_bound=True,
)
NAMESPACES = Source("namespaces", "/api/v1/namespaces", namespaces.translate, kind="Namespace")
NODES = Source("nodes", "/api/v1/nodes", nodes.translate, kind="Node")
PRIORITIES = Source(
    "priorityclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    priorities.translate,
    kind="PriorityClass",
)

DISRUPTION_BUDGETS = Source(
    "poddisruptionbudgets",
    "/apis/policy/v1/poddisruptionbudgets",
    disruptions.translate,
    list_fact=partial(ObjectsListed, kind="PodDisruptionBudget"),
    kind="PodDisruptionBudget",
    is_optional=True,
)

CLAIMS = Source(
    "persistentvolumeclaims",
    "/api/v1/persistentvolumeclaims",
    claims.translate,
    list_fact=partial(ObjectsListed, kind="PersistentVolumeClaim"),
    kind="PersistentVolumeClaim",
)
VOLUMES = Source(
    "persistentvolumes",
    "/api/v1/persistentvolumes",
    volumes.translate,
    list_fact=partial(ObjectsListed, kind="PersistentVolume"),
    kind="PersistentVolume",
)
STORAGE_CLASSES = Source(
    "storageclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    storage_classes.translate,
    list_fact=partial(ObjectsListed, kind="StorageClass"),
    kind="StorageClass",
)
CSI_NODES = Source(
    "csinodes",
    "/apis/storage.k8s.io/v1/csinodes",
    csi_nodes.translate,
    list_fact=partial(ObjectsListed, kind="CSINode"),
    kind="CSINode",
)

#: Groups served by every API server; the others depend on the installation.
_BUILT_IN = frozenset({"apps", "batch"})


def _workloads(kind: Kind, version: str = "") -> Source:
    return Source(
        f"{kind.resource}.{version}" if version else kind.resource,
        f"/apis/{kind.group}/{version}/{kind.resource}" if version else kind.path,
        partial(workloads.translate, kind=kind),
        list_fact=partial(ObjectsListed, kind=kind.kind),
        kind=kind.kind,
        is_optional=kind.group not in _BUILT_IN,
    )


#: By kind.
WORKLOADS = {kind.kind: _workloads(kind) for kind in GOVERNED if kind is not POD}
#: As the MPI operator serves them. One cluster has its definition or the training operator's, never both: they have one name.
MPI_OPERATOR_JOBS = _workloads(MPIJOB, "v2beta1")


def _quotas(name: str, path: str, kind: str) -> Source:
    translate, lists = partial(quotas.translate, kind=kind), partial(ObjectsListed, kind=kind)
    return Source(name, path, translate, list_fact=lists, kind=kind, is_optional=True)


BUSINESS_QUOTAS = _quotas(PLURAL, PATH, KIND)
ELASTIC_QUOTAS = _quotas(
    "elasticquotas", "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas", "ElasticQuota"
)
#: The real use of nodes, measured by Koordinator's node agent.
NODE_METRICS = Source(
    "nodemetrics",
    "/apis/slo.koordinator.sh/v1alpha1/nodemetrics",
    loads.translate,
    list_fact=partial(ObjectsListed, kind="NodeMetric"),
    kind="NodeMetric",
    is_optional=True,
    on_demand=True,
)
#: The same as metrics-server measures it. It keeps nothing, so there is nothing to watch.
NODE_USAGE = Source(
    "nodes.metrics.k8s.io",
    "/apis/metrics.k8s.io/v1beta1/nodes",
    node_usage.translate,
    kind="NodeMetrics",
    is_optional=True,
    on_demand=True,
    polling=Polling(60.0, node_usage.gone),
    uid_of=node_usage.uid_of,
)
#: The devices of nodes, as Koordinator's node agent finds them.
NODE_DEVICES = Source(
    "devices",
    "/apis/scheduling.koordinator.sh/v1alpha1/devices",
    node_devices.translate,
    list_fact=partial(ObjectsListed, kind="Device"),
    kind="Device",
    is_optional=True,
    on_demand=True,
)
#: How the CPUs of nodes lie, as Koordinator's node agent tells it.
NODE_TOPOLOGIES = Source(
    "noderesourcetopologies",
    "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies",
    cpus.translate,
    list_fact=partial(ObjectsListed, kind="NodeResourceTopology"),
    kind="NodeResourceTopology",
    is_optional=True,
    on_demand=True,
)
#: Names by which the pods of training jobs find each other.
SERVICES = Source(
    "services",
    f"/api/v1/services?labelSelector={services.SELECTOR}",
    services.translate,
    list_fact=partial(ObjectsListed, kind="Service"),
    kind="Service",
    on_demand=True,
)
#: The cards of nodes as Yoda's daemon measures them.
SCVS = Source(
    "scvs", "/apis/core.run-linux.com/v1/scvs", scvs.translate, kind="Scv", is_optional=True
)


def _pod_groups(api: str, kind: str) -> Source:
    translate, lists = partial(podgroups.translate, kind=kind), partial(ObjectsListed, kind=kind)
    group, _, version = api.partition("/")
    name, path = f"podgroups.{version}.{group}", f"/apis/{api}/podgroups"
    return Source(name, path, translate, list_fact=lists, kind=kind, is_optional=True)


#: Pods placed together. Of the versions of one API a cluster serves one or two; both have the same content.
POD_GROUPS = (
    _pod_groups("scheduling.k8s.io/v1alpha2", NATIVE),
    _pod_groups("scheduling.k8s.io/v1beta1", NATIVE),
    _pod_groups("scheduling.sigs.k8s.io/v1alpha1", SIGS),
    _pod_groups("scheduling.x-k8s.io/v1alpha1", PLUGINS),
    _pod_groups("scheduling.volcano.sh/v1beta1", VOLCANO),
)

#: Room kept for later pods.
RESERVATIONS = Source(
    "reservations",
    "/apis/scheduling.koordinator.sh/v1alpha1/reservations",
    reservations.translate,
    list_fact=partial(ObjectsListed, kind="Reservation"),
    kind="Reservation",
    is_optional=True,
)
#: Pods that are to move to other nodes.
MIGRATIONS = Source(
    "podmigrationjobs",
    "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs",
    migrations.translate,
    list_fact=partial(ObjectsListed, kind="PodMigrationJob"),
    kind="PodMigrationJob",
    is_optional=True,
    on_demand=True,
)


def _runtimes(name: str, kind: str) -> Source:
    translate, lists = partial(runtimes.translate, kind=kind), partial(ObjectsListed, kind=kind)
    path = f"/apis/{GROUP}/v1alpha1/{name}"
    return Source(name, path, translate, list_fact=lists, kind=kind, is_optional=True)


#: Templates of TrainJobs.
TRAINING_RUNTIMES = (
    _runtimes("trainingruntimes", NAMESPACED_KIND),
    _runtimes("clustertrainingruntimes", CLUSTER_KIND),
)

_DEVICES = "/apis/resource.k8s.io/v1"
RESOURCE_CLAIMS = Source(
    "resourceclaims",
    f"{_DEVICES}/resourceclaims",
    devices.translate_claim,
    list_fact=partial(ObjectsListed, kind="ResourceClaim"),
    kind="ResourceClaim",
    says_every_list=True,
    is_optional=True,
    translate_partly=partial_claims.translate_claim,
)
RESOURCE_CLAIM_TEMPLATES = Source(
    "resourceclaimtemplates",
    f"{_DEVICES}/resourceclaimtemplates",
    devices.translate_template,
    list_fact=partial(ObjectsListed, kind="ResourceClaimTemplate"),
    kind="ResourceClaimTemplate",
    is_optional=True,
    translate_partly=partial_claims.translate_template,
)
RESOURCE_SLICES = Source(
    "resourceslices",
    f"{_DEVICES}/resourceslices",
    devices.translate_slice,
    list_fact=partial(ObjectsListed, kind="ResourceSlice"),
    kind="ResourceSlice",
    is_optional=True,
)
DEVICE_CLASSES = Source(
    "deviceclasses",
    f"{_DEVICES}/deviceclasses",
    devices.translate_class,
    list_fact=partial(ObjectsListed, kind="DeviceClass"),
    kind="DeviceClass",
    is_optional=True,
)

SOURCES = (
    PODS,
    NAMESPACES,
    NODES,
    PRIORITIES,
    DISRUPTION_BUDGETS,
    *WORKLOADS.values(),
    MPI_OPERATOR_JOBS,
    BUSINESS_QUOTAS,
    ELASTIC_QUOTAS,
    NODE_METRICS,
    NODE_USAGE,
    NODE_DEVICES,
    NODE_TOPOLOGIES,
    SERVICES,
    SCVS,
    *POD_GROUPS,
    RESERVATIONS,
    MIGRATIONS,
    CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
    CSI_NODES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    *TRAINING_RUNTIMES,
)

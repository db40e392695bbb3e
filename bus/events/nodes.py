"""Facts about nodes: their resources, their GPU model, their real use, and the layout of their CPUs.

Quantities and durations are as they were written.

Source: Kubernetes API reference, core/v1 Node; docs/accounting.md (GPU model); koordinator-sh/koordinator, slo/v1alpha1
NodeMetric; topology.node.k8s.io/v1alpha1 NodeResourceTopology.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.events.constraints import Taint
from bus.events.vocabulary import Fact


class NodeObserved(Fact, frozen=True, kw_only=True):
    """A node was observed. Key: its name, since pods refer to it by name."""

    wire_type: ClassVar[str] = "node.observed"

    uid: str
    name: str
    resource_version: str
    created: str | None = None
    #: The first existing one of the known GPU model labels; None = none is.
    model: str | None = None
    #: status.allocatable, as written by the node agent.
    allocatable: dict[str, str] = {}
    ready: bool = False
    unschedulable: bool = False
    labels: dict[str, str] = {}
    #: Its other labels: pods may name any of them. They stand in no report.
    further_labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    #: Its images, ``KEY=BYTES`` with spaces between: :func:`bus.sources.images.images_of`.
    images: str = ""
    #: The texts of card-sharing systems in its annotations: docs/devices.md.
    card_texts: dict[str, str] = {}
    #: Koordinator's annotation of limits on its real use: JSON, as it was written, cut.
    usage_thresholds: str = ""
    #: It had more taints or labels than fit into a fact: a pod with label requirements is not placed there.
    is_cut: bool = False


class NodeVanished(Fact, frozen=True, kw_only=True):
    """A node was deleted. Its pods hold until they end themselves. Key: its name."""

    wire_type: ClassVar[str] = "node.vanished"

    uid: str
    name: str
    resource_version: str


class Used(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Used amounts; "" = not reported."""

    cpu: str = ""
    memory: str = ""


class PodUsed(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The measured use of a pod."""

    namespace: str
    name: str
    cpu: str = ""
    memory: str = ""


class AggregatedUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The use of a node over a duration, by ``avg``, ``p50``, ``p90``, ``p95`` and ``p99``."""

    duration: str
    used: dict[str, Used]


class NodeMetricObserved(Fact, frozen=True, kw_only=True):
    """A NodeMetric object, or a node's measurement of metrics-server, was observed. Key: its name, which is the node's."""

    wire_type: ClassVar[str] = "nodemetric.observed"

    uid: str
    name: str
    resource_version: str
    #: When the node was measured; None = it was not, or the stamp is none.
    updated: str | None = None
    #: How often it is.
    interval_seconds: int | None = None
    #: None = it was not measured.
    used: Used | None = None
    pods: tuple[PodUsed, ...] = ()
    #: Its pods were measured with it, and none by itself.
    names_no_pods: bool = False
    aggregated: tuple[AggregatedUse, ...] = ()


class NodeMetricVanished(Fact, frozen=True, kw_only=True):
    """A NodeMetric object was deleted. Key: its name."""

    wire_type: ClassVar[str] = "nodemetric.vanished"

    uid: str
    name: str
    resource_version: str


class NumaZone(msgspec.Struct, frozen=True, gc=False):
    """The resources of a NUMA node, as quantities."""

    node: int
    allocatable: dict[str, str]


class NodeTopologyObserved(Fact, frozen=True, kw_only=True):
    """A NodeResourceTopology object was observed. Key: its name, which is the node's."""

    wire_type: ClassVar[str] = "nodetopology.observed"

    uid: str
    name: str
    resource_version: str
    #: Number, core, socket and NUMA node of each CPU; empty = nobody says.
    cpus: tuple[tuple[int, int, int, int], ...] = ()
    #: CPUs closed to pods, and those given to pods by the kubelet itself, as lists.
    reserved: str = ""
    held: str = ""
    #: The kubelet gives whole cores only.
    full_only: bool = False
    #: The kubelet's policy for NUMA nodes; "" = none.
    policy: str = ""
    zones: tuple[NumaZone, ...] = ()


class NodeTopologyVanished(Fact, frozen=True, kw_only=True):
    """A NodeResourceTopology object was deleted. Key: its name."""

    wire_type: ClassVar[str] = "nodetopology.vanished"

    uid: str
    name: str
    resource_version: str

"""A pod's demands on its node, and a node's taints against pods: named and nested as the API has it; and the
matching of label selectors.

Only the fields with an effect on placing are here; unknown ones are never decoded.

Source: Kubernetes API reference, core/v1 PodSpec and NodeSpec.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

#: Where a pod names no scheduler.
DEFAULT_SCHEDULER = "default-scheduler"


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """Decoded from the API's JSON, and encoded into facts in the same form."""


class Requirement(_Part, frozen=True):
    """An entry of ``matchExpressions`` or ``matchFields``."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(_Part, frozen=True):
    """Labels of pods or namespaces. An empty one selects all."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class NodeSelectorTerm(_Part, frozen=True):
    """All of it has to fit a node; an empty one fits none."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(_Part, frozen=True):
    """One of its terms has to fit."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredNodes(_Part, frozen=True):
    """Nodes that fit are better by ``weight``."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class PodAffinityTerm(_Part, frozen=True):
    """Pods that are to be near, or far, by the label ``topology_key`` of their nodes."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class PreferredPods(_Part, frozen=True):
    """Nodes near such pods are better, or worse, by ``weight``."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class NodeAffinity(_Part, frozen=True):
    """``affinity.nodeAffinity``; later changes of a node evict nobody, so the long names are cut."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredNodes, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(_Part, frozen=True):
    """``affinity.podAffinity`` or ``podAntiAffinity``."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredPods, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Part, frozen=True):
    """``spec.affinity``."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(_Part, frozen=True):
    """A taint that does not keep the pod away. How long it is tolerated decides nothing about placing."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Spread(_Part, frozen=True):
    """An entry of ``topologySpreadConstraints``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class HostPort(_Part, frozen=True):
    """A port that a container takes of its node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Taint(_Part, frozen=True):
    """An entry of a node's ``spec.taints``."""

    key: str = ""
    value: str = ""
    effect: str = ""


class GangTerms(_Part, frozen=True):
    """The gang that a pod names: a PodGroup of its namespace, or one that its own annotations describe, as they are written."""

    name: str = ""
    #: A PodGroup object is not needed: the pod's own annotations describe the gang.
    is_light: bool = False
    least: str = ""
    total: str = ""
    mode: str = ""
    wait: str = ""
    groups: str = ""
    #: ``groups`` is more than a fact carries.
    is_cut: bool = False


class NumaShare(_Part, frozen=True):
    """The resources of a pod on one NUMA node, as quantities."""

    node: int
    resources: dict[str, str] = {}


class HeldCpus(_Part, frozen=True):
    """CPUs that a pod has for itself, as a list, and its parts of NUMA nodes: Koordinator's annotation ``resource-status``."""

    cpuset: str = ""
    numa_node_resources: tuple[NumaShare, ...] = ()


class CpuTerms(_Part, frozen=True):
    """Koordinator's QoS class of a pod, its requirements for CPUs and NUMA nodes, and its allocated CPUs."""

    qos: str = ""
    #: The required and the preferred layout of its CPUs on cores, and the pods they avoid.
    required: str = ""
    bind: str = ""
    exclusive: str = ""
    #: The required layout of its resources on NUMA nodes.
    numa_policy: str = ""
    #: None = it has no such annotation; empty = its annotation is unreadable.
    holds: HeldCpus | None = None


class DeviceHint(_Part, frozen=True):
    """The requirements of a pod for its devices of one kind."""

    #: The devices, by their labels.
    selector: LabelSelector | None = None
    #: ``ApplyForAll``: its request of each of them; ``RequestsAsCount``: so many of them; "" = as it requests.
    strategy: str = ""
    #: They must lie within one ``Device``, ``PCIe`` switch, ``NUMANode`` or ``Node``.
    scope: str = ""
    #: ``DeviceLevel``: whole ones; ``PCIeLevel``: at switches where nobody has a part of one.
    exclusive: str = ""
    #: It wants a virtual function of each, with these labels; None = it wants none.
    functions: LabelSelector | None = None


class DeviceTerms(_Part, frozen=True):
    """The requirements of a pod for its devices beyond their number, by three annotations of Koordinator."""

    hints: dict[str, DeviceHint] = {}
    #: Kinds of devices allocated near those of the first one, at one switch each if ``same_switch``.
    joint: tuple[str, ...] = ()
    same_switch: bool = False
    #: Its cards are a group of the board: one of the best ones (``Restricted``), or any (``BestEffort``).
    partition: str = ""
    #: The link between the cards of the group, as a quantity; "" = anything.
    bandwidth: str = ""
    #: Meaningless annotations: the pod stays unplaced until they are repaired.
    unreadable: tuple[str, ...] = ()


class PodConstraints(_Part, frozen=True):
    """Everything of a pod that decides where it may go, but for its requests, labels, priority and node.

    Every pod tolerates nodes that are not ready or unreachable for a while: the API server adds these two tolerations, and
    they are left out.
    """

    #: spec.schedulerName; "" = the cluster's default.
    scheduler_name: str = ""
    scheduling_gates: tuple[str, ...] = ()
    #: The pods placed together with it.
    gang: GangTerms | None = None
    cpus: CpuTerms | None = None
    devices: DeviceTerms | None = None
    #: spec.preemptionPolicy is Never.
    never_preempts: bool = False
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[Spread, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    #: PersistentVolumeClaims of its namespace, those of ephemeral volumes too.
    claims: tuple[str, ...] = ()
    #: The ``claims`` for ephemeral volumes: each must be made for the pod.
    ephemeral_claims: tuple[str, ...] = ()
    #: Disks named directly by its volumes, by kind: ``rbd``, say.
    disks: tuple[str, ...] = ()
    #: It has resource claims (dynamic resource allocation).
    has_resource_claims: bool = False
    #: While it waits: the images of its containers, one for each, and of its volumes (:func:`bus.sources.images.image_key`).
    images: tuple[str, ...] = ()
    volume_images: tuple[str, ...] = ()
    #: Labels of pods in its selectors, not published by the source.
    unkept_labels: tuple[str, ...] = ()
    #: Own labels for its selectors, published only for them.
    template_labels: dict[str, str] = {}
    #: More existed than fit into a fact: this list is incomplete.
    is_cut: bool = False


NO_CONSTRAINTS = msgspec.Raw(b"")


def meets(operator: str, values: Collection[str] | None, text: str | None) -> bool:
    """Whether a label of this text, None for an absent one, meets a requirement."""
    match operator:
        case "In":
            return text is not None and text in (values or ())
        case "NotIn":
            return text is None or text not in (values or ())
        case "Exists":
            return text is not None
        case "DoesNotExist":
            return text is None
    return False


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector means an object of these labels. None means nothing, an empty one everything."""
    if selector is None:
        return False
    for key, text in (selector.match_labels or {}).items():
        if labels.get(key) != text:
            return False
    return all(
        meets(one.operator, one.values, labels.get(one.key))
        for one in selector.match_expressions or ()
    )


def is_empty(selector: LabelSelector | None) -> bool:
    """Whether a selector means everything since it names nothing."""
    return (
        selector is not None and not selector.match_labels and not selector.match_expressions
    )  # fmt: skip


def is_valid(selector: LabelSelector) -> bool:
    """Whether the API's own reading of a selector does not fail."""
    return all(_is_valid(one) for one in selector.match_expressions or ())


def _is_valid(one: Requirement) -> bool:
    if one.operator in ("In", "NotIn"):
        return bool(one.values)
    return one.operator in ("Exists", "DoesNotExist") and not one.values


def keys_of(selector: LabelSelector | None) -> set[str]:
    """The labels in a selector."""
    if selector is None:
        return set()
    return {*(selector.match_labels or ()), *(one.key for one in selector.match_expressions or ())}


def without(selector: LabelSelector | None, keys: Collection[str]) -> LabelSelector | None:
    """A selector without requirements on the labels ``keys`` of unknown text."""
    if selector is None or not keys:
        return selector
    labels = selector.match_labels or {}
    return LabelSelector(
        {key: text for key, text in labels.items() if key not in keys},
        tuple(one for one in selector.match_expressions or () if one.key not in keys),
    )

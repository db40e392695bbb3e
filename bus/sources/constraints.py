"""Placement constraints of pods and nodes, bounded. Pure.

Selectors of pods may need labels without publication: such keys are named in the constraints, so the scheduler
never takes an unpublished label for an absent one. Labels written by controllers for one template are published if
the pod's own selectors name them: every pod of that template names them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bus.events.constraints import (
    DEFAULT_SCHEDULER,
    NO_CONSTRAINTS,
    Affinity,
    CpuTerms,
    DeviceTerms,
    GangTerms,
    HostPort,
    PodConstraints,
    Spread,
    Taint,
    Toleration,
    keys_of,
)
from bus.kube.watch.labels import LabelPolicy
from bus.sources import card_texts
from bus.sources.images import image_key
from bus.sources.sealed_users import sealed

#: Most bytes of a pod's constraints, or of a node's taints and further labels, in a fact, as JSON.
LARGEST_CONSTRAINTS = 8 * 1024
#: Labels written by a controller for the pods of one template.
TEMPLATE_LABELS = frozenset(
    {"controller-revision-hash", "pod-template-generation", "pod-template-hash"}
)

#: Every namespace has this label; it is known without being kept.
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_DEFAULT_TOLERATIONS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})

_encode = msgspec.json.Encoder(order="sorted").encode


class Anything(msgspec.Struct):
    """An object; only its presence matters."""


class Gate(msgspec.Struct):
    """An entry of ``spec.schedulingGates``."""

    name: str = ""


class Claim(msgspec.Struct, rename="camel"):
    """``persistentVolumeClaim`` of a volume."""

    claim_name: str = ""


class ImageVolume(msgspec.Struct):
    """``image`` of a volume."""

    reference: str = ""


class Volume(msgspec.Struct, rename="camel"):
    """A volume: only whether it is a claim, an image or a disk, and its name."""

    name: str = ""
    persistent_volume_claim: Claim | None = None
    #: Its claim is named like pod and volume.
    ephemeral: Anything | None = None
    image: ImageVolume | None = None
    aws_elastic_block_store: Anything | None = None
    azure_disk: Anything | None = None
    cinder: Anything | None = None
    gce_persistent_disk: Anything | None = None
    iscsi: Anything | None = None
    portworx_volume: Anything | None = None
    rbd: Anything | None = None
    vsphere_volume: Anything | None = None


class PodClaim(msgspec.Struct, rename="camel"):
    """An entry of ``spec.resourceClaims``, or of ``status.resourceClaimStatuses``."""

    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(msgspec.Struct, rename="camel"):
    """``spec.schedulingGroup``."""

    pod_group_name: str | None = None


class Placing(msgspec.Struct, rename="camel"):
    """The decoded part of a pod's ``spec`` for placing."""

    scheduling_group: SchedulingGroup | None = None

    scheduler_name: str | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[Gate] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[Spread, ...] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[PodClaim] | None = None


def constraints_of(
    spec: Placing,
    ports: Iterable[HostPort],
    images: list[str],
    pod: str,
    labels: dict[str, str] | None,
    policy: LabelPolicy,
    gang: GangTerms | None = None,
    cpus: CpuTerms | None = None,
    devices: DeviceTerms | None = None,
) -> tuple[msgspec.Raw, bool]:
    """A pod's constraints as they are written, and whether they had to be cut. Without any the bytes are empty.

    ``images`` are those of its containers, none where nobody places it any more. Where there are too many, none is published:
    they refuse no node.
    """
    volumes = [one.image.reference for one in spec.volumes or () if one.image] if images else ()
    found = PodConstraints(
        scheduler_name=_named(spec.scheduler_name),
        scheduling_gates=tuple(one.name for one in spec.scheduling_gates or ()),
        gang=gang,
        cpus=cpus,
        devices=devices,
        never_preempts=spec.preemption_policy == "Never",
        node_selector=spec.node_selector or {},
        affinity=_affinity(spec.affinity),
        tolerations=tuple(one for one in spec.tolerations or () if not _is_default(one)),
        topology_spread_constraints=spec.topology_spread_constraints or (),
        host_ports=tuple(one for one in ports if one.host_port),
        claims=tuple(_claims(spec.volumes or (), pod)),
        ephemeral_claims=tuple(_ephemeral(spec.volumes or (), pod)),
        disks=tuple(sorted(set(_disks(spec.volumes or ())))),
        has_resource_claims=bool(spec.resource_claims),
        images=tuple(map(image_key, images)) if any(images) else (),
        volume_images=tuple(map(image_key, volumes)),
    )
    if found == _NONE:
        return NO_CONSTRAINTS, False
    if found.affinity is not None or found.topology_spread_constraints:
        keys = sorted(set(_selected(found)))
        unkept = [key for key in keys if not is_kept(key, policy)]
        found = msgspec.structs.replace(
            found,
            unkept_labels=tuple(key for key in unkept if key not in TEMPLATE_LABELS),
            template_labels={
                key: labels[key]
                for key in unkept
                if key in TEMPLATE_LABELS and labels and key in labels
            },
        )
    found = sealed(found, PodConstraints, policy)
    for one in (found, msgspec.structs.replace(found, images=(), volume_images=())):
        whole = _encode(one)
        if len(whole) <= LARGEST_CONSTRAINTS:
            return msgspec.Raw(whole), False
    less = PodConstraints(
        scheduler_name=found.scheduler_name, never_preempts=found.never_preempts, is_cut=True,
        gang=gang and GangTerms(gang.name, is_light=gang.is_light, is_cut=True), cpus=cpus,
    )  # fmt: skip
    return msgspec.Raw(_encode(less)), True


_NONE = PodConstraints()


def _named(scheduler: str | None) -> str:
    # Longer names are none: a name in the API has at most 253 characters.
    return "" if scheduler in (None, DEFAULT_SCHEDULER) else (scheduler or "")[:253]


def _affinity(found: Affinity | None) -> Affinity | None:
    return None if found == Affinity() else found


def _is_default(one: Toleration) -> bool:
    return (
        one.key in _DEFAULT_TOLERATIONS and one.operator == "Exists" and one.effect == "NoExecute"
    )


#: Volumes with exclusive use by a pod, or with a limit per node, by field.
_DISKS = {
    "aws_elastic_block_store": "awsElasticBlockStore",
    "azure_disk": "azureDisk",
    "cinder": "cinder",
    "gce_persistent_disk": "gcePersistentDisk",
    "iscsi": "iscsi",
    "portworx_volume": "portworxVolume",
    "rbd": "rbd",
    "vsphere_volume": "vsphereVolume",
}


def _disks(volumes: Iterable[Volume]) -> Iterator[str]:
    for volume in volumes:
        for field, kind in _DISKS.items():
            if getattr(volume, field) is not None:
                yield kind


def _claims(volumes: Iterable[Volume], pod: str) -> Iterator[str]:
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        else:
            yield from _ephemeral((volume,), pod)


def _ephemeral(volumes: Iterable[Volume], pod: str) -> Iterator[str]:
    for volume in volumes:
        if volume.persistent_volume_claim is None and volume.ephemeral is not None:
            yield f"{pod}-{volume.name}"


def _selected(found: PodConstraints) -> Iterator[str]:
    """The keys of pods' labels in constraints."""
    for spread in found.topology_spread_constraints:
        yield from keys_of(spread.label_selector)
        yield from spread.match_label_keys or ()
    affinity = found.affinity or Affinity()
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if part is None:
            continue
        preferred = (one.pod_affinity_term for one in part.preferred or ())
        for term in (*(part.required or ()), *preferred):
            yield from keys_of(term.label_selector)
            yield from term.match_label_keys or ()
            yield from term.mismatch_label_keys or ()
            yield from (key for key in keys_of(term.namespace_selector) if key != _NAMESPACE_NAME)


def is_kept(key: str, policy: LabelPolicy) -> bool:
    """Whether facts of pods keep a label as it is: a user's name under a key matches no selector."""
    if key == policy.user and policy.names is not None:
        return False
    return key in policy.label_keys or key.startswith(policy.label_prefixes)


def bounded_taints(taints: Iterable[Taint], room: int) -> tuple[tuple[Taint, ...], bool]:
    """The taints in the order of the object while there is ``room``, and whether some had to be left out."""
    kept: list[Taint] = []
    for one in taints:
        room -= len(_encode(one)) + 1
        if room < 0:
            return tuple(kept), True
        kept.append(one)
    return tuple(kept), False


def further_labels(
    labels: dict[str, str] | None, kept: dict[str, str]
) -> tuple[dict[str, str], bool]:
    """A node's labels besides those for reports, and whether some were dropped.

    Labels about card sizes are dropped last.
    """
    found: dict[str, str] = {}
    room = LARGEST_CONSTRAINTS
    for key in sorted(labels or (), key=lambda key: (not card_texts.is_node_label(key), key)):
        if key in kept:
            continue
        room -= len(_encode(key)) + len(_encode((labels or {})[key])) + 2
        if room < 0:
            return dict(sorted(found.items())), True
        found[key] = (labels or {})[key]
    return dict(sorted(found.items())), False

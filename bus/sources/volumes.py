"""PersistentVolumes as facts. Pure: one record in, one event out.

Of a volume's backend only the driver and a digest of its handle are published: attributes and secrets of drivers
are never decoded.

Source: Kubernetes API reference, core/v1 PersistentVolume.
"""

from __future__ import annotations

import hashlib

import msgspec

from bus.envelope import Event
from bus.events.constraints import NodeSelector
from bus.events.volumes import VolumeObserved, VolumeVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record
from bus.sources.claims import bytes_of, class_of, known_modes, named
from bus.sources.constraints import LARGEST_CONSTRAINTS, Anything
from bus.sources.sealed_users import sealed

#: The labels of a volume's location.
ZONES = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
#: In-tree plugins with volumes attached to nodes, by field.
_IN_TREE = {
    "aws_elastic_block_store": "kubernetes.io/aws-ebs",
    "azure_disk": "kubernetes.io/azure-disk",
    "cinder": "kubernetes.io/cinder",
    "gce_persistent_disk": "kubernetes.io/gce-pd",
    "portworx_volume": "kubernetes.io/portworx-volume",
    "vsphere_volume": "kubernetes.io/vsphere-volume",
}

_encode = msgspec.json.Encoder().encode


class Csi(msgspec.Struct, rename="camel"):
    """The decoded part of ``spec.csi``."""

    driver: str = ""
    volume_handle: str = ""


class ClaimRef(msgspec.Struct):
    """The decoded part of ``spec.claimRef``."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(msgspec.Struct):
    """``spec.nodeAffinity``."""

    required: NodeSelector | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """The decoded part of ``spec``."""

    capacity: dict[str, str] | None = None
    access_modes: list[str] | None = None
    claim_ref: ClaimRef | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: Csi | None = None
    aws_elastic_block_store: Anything | None = None
    azure_disk: Anything | None = None
    cinder: Anything | None = None
    gce_persistent_disk: Anything | None = None
    portworx_volume: Anything | None = None
    vsphere_volume: Anything | None = None


class _Status(msgspec.Struct):
    """The decoded part of ``status``."""

    phase: str = ""


class Volume(msgspec.Struct):
    """The decoded part of a volume."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_NO_SPEC, _NO_STATUS, _NO_REF = _Spec(), _Status(), ClaimRef()


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``persistentvolume.observed`` or ``persistentvolume.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, Volume)
    metadata = records.identified(found.metadata)
    fact: VolumeObserved | VolumeVanished
    if records.is_delete(record):
        fact = VolumeVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        spec, status = found.spec or _NO_SPEC, found.status or _NO_STATUS
        claim, of_volume = spec.claim_ref or _NO_REF, metadata.labels or {}
        affinity = spec.node_affinity.required if spec.node_affinity is not None else None
        affinity = sealed(affinity, NodeSelector | None, labels)
        is_cut = len(_encode(affinity)) > LARGEST_CONSTRAINTS
        driver, handle = _attached(spec)
        fact = VolumeObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            phase=named(status.phase),
            is_terminating=metadata.deletion_timestamp is not None,
            claim_namespace=named(claim.namespace),
            claim_name=named(claim.name),
            claim_uid=named(claim.uid),
            storage_class=class_of(metadata.annotations or {}, spec.storage_class_name),
            access_modes=known_modes(spec.access_modes),
            capacity_bytes=bytes_of(spec.capacity),
            is_block=spec.volume_mode == "Block",
            driver=driver,
            handle=handle,
            zones={key: of_volume[key] for key in ZONES if key in of_volume},
            node_affinity=None if is_cut else affinity,
            is_cut=is_cut,
        )
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )


def _attached(spec: _Spec) -> tuple[str, str]:
    """The attacher of a volume, and its name for the volume."""
    if spec.csi is not None:
        digest = hashlib.blake2b(spec.csi.volume_handle.encode(), digest_size=12)
        return named(spec.csi.driver), digest.hexdigest()
    for field, plugin in _IN_TREE.items():
        if getattr(spec, field) is not None:
            return plugin, ""
    return "", ""

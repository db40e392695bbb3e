"""Facts about storage: claims of volumes, volumes, their classes, and the limit of attached volumes of a node.

Source: Kubernetes API reference, core/v1 PersistentVolumeClaim and PersistentVolume, storage/v1 StorageClass and CSINode.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.events.constraints import NodeSelector
from bus.events.vocabulary import Fact


class ClaimObserved(Fact, frozen=True, kw_only=True):
    """A PersistentVolumeClaim was observed. Key: its uid."""

    wire_type: ClassVar[str] = "persistentvolumeclaim.observed"

    uid: str
    namespace: str
    name: str
    resource_version: str
    #: spec.volumeName; "" = none. Its owner may have written any.
    volume: str = ""
    #: It has a volume, and the control plane is done with binding the two.
    is_bound: bool = False
    #: Its volume is gone, or was never its own (status.phase Lost).
    is_lost: bool = False
    is_terminating: bool = False
    #: The name of its storage class; "" = none.
    storage_class: str = ""
    #: ReadWriteOnce, say; sorted.
    access_modes: tuple[str, ...] = ()
    requested_bytes: int = 0
    #: spec.volumeMode is Block.
    is_block: bool = False
    #: Volumes by label.
    has_selector: bool = False
    #: The planned node of a new volume; "" = none was chosen. Its owner may write any.
    selected_node: str = ""
    #: The uid of its controller: of an ephemeral volume it is the pod. "" = none.
    owner: str = ""


class ClaimVanished(Fact, frozen=True, kw_only=True):
    """A PersistentVolumeClaim was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "persistentvolumeclaim.vanished"

    uid: str
    namespace: str
    name: str
    resource_version: str


class VolumeObserved(Fact, frozen=True, kw_only=True):
    """A PersistentVolume was observed. Key: its uid."""

    wire_type: ClassVar[str] = "persistentvolume.observed"

    uid: str
    name: str
    resource_version: str
    phase: str = ""
    is_terminating: bool = False
    #: spec.claimRef; "" where it has none, or names no uid.
    claim_namespace: str = ""
    claim_name: str = ""
    claim_uid: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    capacity_bytes: int = 0
    is_block: bool = False
    #: Its attacher: a CSI driver, or the name of a plugin in the tree (``kubernetes.io/aws-ebs``); "" = not needed.
    driver: str = ""
    #: Names the volume for its CSI driver: a digest of the handle, since its text is arbitrary.
    handle: str = ""
    #: Its labels of zones and regions.
    zones: dict[str, str] = {}
    #: The nodes with access to it; None = all.
    node_affinity: NodeSelector | None = None
    #: Its node affinity is larger than a fact: its nodes are unknown.
    is_cut: bool = False


class VolumeVanished(Fact, frozen=True, kw_only=True):
    """A PersistentVolume was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "persistentvolume.vanished"

    uid: str
    name: str
    resource_version: str


class TopologyRequirement(
    msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False
):
    """An entry of ``matchLabelExpressions``: a node has the label with one of the values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """All of it has to fit a node; an empty one fits none."""

    match_label_expressions: tuple[TopologyRequirement, ...] | None = None


class StorageClassObserved(Fact, frozen=True, kw_only=True):
    """A StorageClass was observed. Key: its uid."""

    wire_type: ClassVar[str] = "storageclass.observed"

    uid: str
    name: str
    resource_version: str
    provisioner: str = ""
    #: volumeBindingMode is WaitForFirstConsumer: a claim gets its volume when the node of a pod is chosen.
    waits_for_consumer: bool = False
    #: Where volumes may be made: one of them has to fit; () = everywhere.
    allowed_topologies: tuple[TopologyTerm, ...] = ()
    #: Its topologies are more than a fact carries.
    is_cut: bool = False


class StorageClassVanished(Fact, frozen=True, kw_only=True):
    """A StorageClass was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "storageclass.vanished"

    uid: str
    name: str
    resource_version: str


class CsiNodeObserved(Fact, frozen=True, kw_only=True):
    """A CSINode was observed. Key: its name, which is the node's."""

    wire_type: ClassVar[str] = "csinode.observed"

    uid: str
    name: str
    resource_version: str
    #: By CSI driver: the limit of its attached volumes on the node; a driver without a limit is left out.
    limits: dict[str, int] = {}


class CsiNodeVanished(Fact, frozen=True, kw_only=True):
    """A CSINode was deleted. Key: its name."""

    wire_type: ClassVar[str] = "csinode.vanished"

    uid: str
    name: str
    resource_version: str

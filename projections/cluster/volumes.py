"""The rows of storage: claims, volumes, storage classes, and the limit of attached volumes of a node. Pure.

Claims are as many as notebooks, so rows are compact: texts and node affinities shared by many are one object in
memory.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import msgspec

from bus.events.constraints import NodeSelector
from bus.events.volumes import (
    ClaimObserved,
    CsiNodeObserved,
    StorageClassObserved,
    TopologyTerm,
    VolumeObserved,
)

if TYPE_CHECKING:
    from projections.cluster.rows import Pod

#: Namespace and name of a claim.
ClaimKey: TypeAlias = tuple[str, str]


class Pvc(msgspec.Struct, gc=False):
    """A PersistentVolumeClaim."""

    kind: ClassVar[str] = "PersistentVolumeClaim"

    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    #: "" = it has none, or names none.
    volume: str
    is_bound: bool
    is_lost: bool
    is_terminating: bool
    storage_class: str
    access_modes: tuple[str, ...]
    requested_bytes: int
    is_block: bool
    has_selector: bool
    selected_node: str
    #: The uid of its controller; "" = none.
    owner: str
    last_us: int = 0
    listed_us: int = 0


class Volume(msgspec.Struct, gc=False):
    """A PersistentVolume."""

    kind: ClassVar[str] = "PersistentVolume"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    phase: str
    is_terminating: bool
    #: Namespace, name and uid of its claim; "" = none.
    claim: tuple[str, str, str]
    storage_class: str
    access_modes: tuple[str, ...]
    capacity_bytes: int
    is_block: bool
    driver: str
    handle: str
    #: Shared: never changed.
    zones: dict[str, str]
    #: None = every node reaches it. Shared: never changed.
    node_affinity: NodeSelector | None
    #: The nodes with access to it are unknown.
    is_cut: bool
    last_us: int = 0
    listed_us: int = 0


class StorageClass(msgspec.Struct, gc=False):
    """A StorageClass."""

    kind: ClassVar[str] = "StorageClass"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    provisioner: str
    waits_for_consumer: bool
    allowed_topologies: tuple[TopologyTerm, ...]
    is_cut: bool
    last_us: int = 0
    listed_us: int = 0


class CsiNode(msgspec.Struct, gc=False):
    """The limit of attached volumes of each CSI driver on the node of this name."""

    kind: ClassVar[str] = "CSINode"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    limits: dict[str, int]
    last_us: int = 0
    listed_us: int = 0


def claim(fact: ClaimObserved, time_us: int, known: Pvc | None) -> Pvc:
    """The row of a claim."""
    return Pvc(
        fact.uid, intern(fact.namespace), fact.name, fact.resource_version, time_us, fact.volume, fact.is_bound,
        fact.is_lost, fact.is_terminating, intern(fact.storage_class), _modes(fact.access_modes), fact.requested_bytes,
        fact.is_block, fact.has_selector, intern(fact.selected_node), fact.owner, time_us,
    )  # fmt: skip


def volume(fact: VolumeObserved, time_us: int, known: Volume | None) -> Volume:
    """The row of a volume."""
    affinity = None
    if fact.node_affinity is not None:
        affinity = _affinity(msgspec.json.encode(fact.node_affinity))
    return Volume(
        fact.uid, fact.name, fact.resource_version, time_us, intern(fact.phase), fact.is_terminating,
        (intern(fact.claim_namespace), fact.claim_name, fact.claim_uid), intern(fact.storage_class),
        _modes(fact.access_modes), fact.capacity_bytes, fact.is_block, intern(fact.driver), fact.handle,
        _zones(tuple(fact.zones.items())), affinity, fact.is_cut, time_us,
    )  # fmt: skip


def storage_class(
    fact: StorageClassObserved, time_us: int, known: StorageClass | None
) -> StorageClass:
    """The row of a storage class."""
    return StorageClass(
        fact.uid, fact.name, fact.resource_version, time_us, fact.provisioner, fact.waits_for_consumer,
        fact.allowed_topologies, fact.is_cut, time_us,
    )  # fmt: skip


def csi_node(fact: CsiNodeObserved, time_us: int, known: CsiNode | None) -> CsiNode:
    """The row of a CSINode."""
    return CsiNode(
        fact.uid, intern(fact.name), fact.resource_version, time_us, dict(fact.limits), time_us
    )


@lru_cache(maxsize=64)
def _modes(modes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(intern, modes))


@lru_cache(maxsize=1_024)
def _zones(zones: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {intern(key): intern(text) for key, text in zones}


# Volumes of a zone have equal affinities.
@lru_cache(maxsize=1_024)
def _affinity(raw: bytes) -> NodeSelector:
    return msgspec.json.decode(raw, type=NodeSelector)


def claims_of(pod: Pod) -> list[ClaimKey]:
    """The claims of a pod, each once."""
    found = pod.constraints
    if found is None or not found.claims:
        return []
    return [(pod.namespace, name) for name in dict.fromkeys(found.claims)]

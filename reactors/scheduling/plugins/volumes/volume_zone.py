"""VolumeZone: a volume with labels of zones or regions is reached from nodes there.

Source: Kubernetes, "Running in multiple zones".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from reactors.scheduling.columns.table import Rows
from reactors.scheduling.framework.contract import ONE_CHANGE, SKIP, Code, Cycle, Refused, Status
from reactors.scheduling.plugins.volumes.volume_restrictions import NOT_FOUND, named_claims
from reactors.scheduling.queueing.hints import Hint

REASON = "node(s) had no available volume zone"
#: The labels of zones and regions, and the newer names of older ones.
LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


class VolumeZone(msgspec.Struct, frozen=True):
    """Volumes by their own labels; nodes without any zone label fit all zones."""

    name: ClassVar[str] = "VolumeZone"
    is_local: ClassVar[bool] = False
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.CLAIM, Hint.VOLUME})

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """A pod waits for the volumes of its claims; one with volumes without a zone fits anywhere."""
        for name in named_claims(cycle.pod):
            if why := _missing(cycle, name):
                return Status(Code.UNRESOLVABLE, why)
        return None if next(_zones(cycle), None) is not None else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes in other zones."""
        columns = cycle.columns
        elsewhere = np.zeros(len(columns.nodes), np.bool_)
        for key, zones in _zones(cycle):
            own = columns.labels.of(key)
            own = np.where(own > 0, own, columns.labels.of(LABELS[key]))
            elsewhere |= ~np.isin(own, [columns.labels.texts.get(one, -1) for one in zones])
        somewhere = np.zeros_like(elsewhere)
        for key in LABELS:
            somewhere |= columns.labels.of(key) > 0
        found = (elsewhere & somewhere)[rows]
        return (Refused(REASON, found, found),) if found.any() else ()

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Claim another volume."""
        return f"claim volumes in the zone of {cycle.columns.names[row]}"


def _missing(cycle: Cycle, name: str) -> str:
    """A missing part of a claim, in kube-scheduler's words; "" = nothing needed by this plugin is missing."""
    volumes = cycle.columns.volumes
    claim = volumes.claim(cycle.pod.namespace, name)
    if claim is None:
        return NOT_FOUND.format(name)
    if claim.volume:
        gone = volumes.volume(claim.volume) is None
        return f'persistentvolume "{claim.volume}" not found' if gone else ""
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    made_by = volumes.storage_class(claim.storage_class)
    if made_by is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return "" if made_by.waits_for_consumer else "PersistentVolume had no name"


def _zones(cycle: Cycle) -> Iterator[tuple[str, list[str]]]:
    """The labels of the pod's volumes, and the zones of each."""
    volumes = cycle.columns.volumes
    for name in named_claims(cycle.pod):
        claim = volumes.claim(cycle.pod.namespace, name)
        volume = volumes.volume(claim.volume) if claim is not None and claim.volume else None
        labels = volume.zones if volume is not None else {}
        for key in LABELS:
            zones = [one.strip() for one in labels.get(key, "").split("__")]
            if all(zones):
                yield key, zones

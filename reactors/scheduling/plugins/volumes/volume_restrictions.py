"""VolumeRestrictions: a ReadWriteOncePod claim is used by one pod at a time.

Disks named in a pod's own volumes are ignored: KnownTerms keeps such a pod back.

Source: Kubernetes, "Persistent Volumes", access mode ReadWriteOncePod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from projections.cluster import Pod
from reactors.scheduling.columns.table import Rows
from reactors.scheduling.framework.contract import ONE_CHANGE, SKIP, Code, Cycle, Refused, Status
from reactors.scheduling.queueing.hints import Hint

REASON = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)
NOT_FOUND = 'persistentvolumeclaim "{}" not found'


class VolumeRestrictions(msgspec.Struct, frozen=True):
    """Claims of the access mode ReadWriteOncePod, in the whole cluster."""

    name: ClassVar[str] = "VolumeRestrictions"
    is_local: ClassVar[bool] = False
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.GONE, Hint.CLAIM})

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """A missing claim is waited for."""
        volumes = cycle.columns.volumes
        for name in named_claims(cycle.pod):
            if volumes.claim(cycle.pod.namespace, name) is None:
                return Status(Code.UNRESOLVABLE, NOT_FOUND.format(name))
        return None if _taken(cycle) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Every node, while another pod uses one of the claims."""
        if not _taken(cycle):
            return ()
        return (Refused(REASON, np.ones(len(cycle.columns.nodes), np.bool_)[rows]),)

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """End the other pod, or change the access mode of the claim."""
        return f"end the pod that uses the claim {_taken(cycle)}, or claim a volume that several may use"


def named_claims(pod: Pod) -> Iterator[str]:
    """The claims of a pod, without those of its ephemeral volumes."""
    found = pod.constraints
    if found is not None:
        yield from (one for one in found.claims if one not in found.ephemeral_claims)


def _taken(cycle: Cycle) -> str:
    """A ReadWriteOncePod claim used by another pod; "" for none."""
    volumes, namespace = cycle.columns.volumes, cycle.pod.namespace
    for name in named_claims(cycle.pod):
        claim = volumes.claim(namespace, name)
        if claim is not None and "ReadWriteOncePod" in claim.access_modes:
            if volumes.is_used(namespace, name):
                return name
    return ""

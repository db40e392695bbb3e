"""Storage for the scheduler: claims by name with their volumes and users, and attachments by node.

Follows :class:`projections.cluster.ClusterState`. Attachments are counted only for drivers with a limit on some node. A node's
attachments are counted again after a change of its pods, or of a claim or volume of theirs.

Source: Kubernetes, "Persistent Volumes", "Node-specific Volume Limits"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

import numpy as np

from projections.cluster import Change, ClusterState, Pod
from projections.cluster.volumes import ClaimKey, CsiNode, Pvc, StorageClass, Volume, claims_of
from reactors.scheduling.columns.nodes import Ints

#: The driver attaching a volume, and its name for the volume.
Attachment: TypeAlias = tuple[str, str]

KINDS = frozenset({Pvc.kind, Volume.kind, StorageClass.kind, CsiNode.kind})
#: The limit of a node without one of its own.
UNLIMITED = 2**31 - 1

#: The CSI drivers for the volumes of in-tree plugins.
_MIGRATED = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


class Volumes:
    """Claims, volumes and attachments, kept by :class:`reactors.scheduling.columns.table.Columns`; plugins read it."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        #: Of each claim of pods on nodes: the number of its users on each row.
        self._users: dict[ClaimKey, dict[int, int]] = {}
        #: By row: the claims of its pods, and how many use each.
        self._here: dict[int, dict[ClaimKey, int]] = {}
        self._rows: Mapping[str, int] = {}
        #: By driver, by row; None = to be read again.
        self._limits: dict[str, Ints] | None = None
        #: By driver, by row: the attached volumes; and by row, by volume.
        self._counts: dict[str, Ints] = {}
        self._attached: dict[int, frozenset[Attachment]] = {}
        self._on: dict[Attachment, set[int]] = {}
        #: The rows with attachments depending on a volume, by its name: several claims may name one. And by row the names.
        self._asked: dict[str, set[int]] = {}
        self._asking: dict[int, frozenset[str]] = {}
        #: By storage class: uids of the volumes without a claim.
        self._free: dict[str, set[str]] = {}
        for volume in cluster.volumes.values():
            self._offer(volume)
        #: Rows with attachments to count again.
        self._stale: set[int] = set()

    # folding

    def lay_out(self, moved: Mapping[int, int], rows: Mapping[str, int]) -> None:
        """Nodes came or went: each remaining row has a new position; ``rows`` has those of all nodes by name."""
        self._here = {moved[row]: found for row, found in self._here.items() if row in moved}
        self._users = {}
        for row, found in self._here.items():
            for key, count in found.items():
                self._users.setdefault(key, {})[row] = count
        self._rows = rows
        self._forget()

    def follow(self, change: Change) -> None:
        """A claim, a volume, a class or a CSINode changed."""
        for one in (change.before, change.after):
            if isinstance(one, Pvc):
                self._stale.update(self._users.get((one.namespace, one.name), ()))
            elif isinstance(one, Volume):
                self._stale.update(self._asked.get(one.name, ()))
                self._free.get(one.storage_class, set()).discard(one.uid)
            elif one is not None:
                self._forget()
        if isinstance(change.after, Volume):
            self._offer(change.after)

    def _offer(self, volume: Volume) -> None:
        if not volume.claim[2] and not volume.is_terminating:
            self._free.setdefault(volume.storage_class, set()).add(volume.uid)

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """A pod came to a row (1), or left it (-1)."""
        for key in claims_of(pod):
            _add(self._users, key, row, sign)
            _add(self._here, row, key, sign)
            self._stale.add(row)

    def _forget(self) -> None:
        self._limits = None
        self._counts, self._attached, self._on = {}, {}, {}
        self._asked, self._asking = {}, {}
        self._stale = set(self._here)

    # questions

    def unbound(self, pod: Pod) -> list[Pvc]:
        """The claims of a pod to bind before the pod is bound, or bound to volumes not observed yet."""
        claims = [one for key in claims_of(pod) if (one := self.claim(*key)) is not None]
        return [one for one in claims if not one.is_bound or self.volume(one.volume) is None]

    def claim(self, namespace: str, name: str) -> Pvc | None:
        """A claim by its name; None for none."""
        return self._cluster.claims.get(self._cluster.named(Pvc.kind, namespace, name))

    def volume(self, name: str) -> Volume | None:
        """A volume by its name; None for none."""
        return self._cluster.volumes.get(self._cluster.named(Volume.kind, "", name))

    def storage_class(self, name: str) -> StorageClass | None:
        """A storage class by its name; None for none."""
        return self._cluster.storage_classes.get(self._cluster.named(StorageClass.kind, "", name))

    def is_used(self, namespace: str, name: str) -> bool:
        """Whether a pod on a node uses this claim."""
        return (namespace, name) in self._users

    def waits(self, claim: Pvc) -> bool:
        """Whether a claim without a volume gets one when the node of a pod is chosen."""
        made_by = self.storage_class(claim.storage_class) if claim.storage_class else None
        is_free = not claim.is_bound and not claim.volume
        return is_free and made_by is not None and made_by.waits_for_consumer

    def candidate(self, claim: Pvc) -> Volume | None:
        """A volume fit for a claim without one, on some node; of several the first by uid."""
        free = (self._cluster.volumes[uid] for uid in self._free.get(claim.storage_class, ()))
        found = (volume for volume in free if _may_be_bound(volume, claim))
        return min(found, key=lambda volume: volume.uid, default=None)

    def chosen(self, claim: Pvc) -> set[int] | None:
        """The rows of the future volume of an unbound claim, once a pod has a node; None = not chosen yet."""
        if claim.selected_node:
            row = self._rows.get(claim.selected_node)
            return set() if row is None else {row}
        users = self._users.get((claim.namespace, claim.name))
        return set(users) if users else None

    def attachment(self, claim: Pvc) -> Attachment | None:
        """The attachment to a node for a claim; None for nothing."""
        volume = self.volume(claim.volume) if claim.volume else None
        if volume is not None:
            if not volume.driver:
                return None
            return _MIGRATED.get(volume.driver, volume.driver), volume.handle or f"/{volume.name}"
        made_by = self.storage_class(claim.storage_class) if claim.storage_class else None
        if made_by is None or not made_by.provisioner:
            return None
        driver = _MIGRATED.get(made_by.provisioner, made_by.provisioner)
        return driver, f"{claim.namespace}/{claim.name}"

    def full(self, wanted: Iterable[Attachment]) -> Ints:
        """By row, 1 if a node cannot attach all wanted volumes in addition to the attached ones."""
        limits = self._limits_by_driver()
        self._count_again(limits)
        found = np.zeros(len(self._rows), np.int64)
        by_driver: dict[str, set[Attachment]] = {}
        for one in wanted:
            by_driver.setdefault(one[0], set()).add(one)
        for driver, ones in by_driver.items():
            if driver not in limits:
                continue
            more = np.full(len(self._rows), len(ones), np.int64)
            for one in ones:
                more[list(self._on.get(one, ()))] -= 1
            counts = self._counts.get(driver, 0)
            found |= (more > 0) & (counts + more > limits[driver])
        return found

    def _limits_by_driver(self) -> dict[str, Ints]:
        if self._limits is None:
            self._limits = {}
            for one in sorted(self._cluster.csi_nodes.values(), key=lambda one: one.uid):
                row = self._rows.get(one.name)
                if row is None or self._cluster.named(CsiNode.kind, "", one.name) != one.uid:
                    continue
                for driver, limit in one.limits.items():
                    if driver not in self._limits:
                        self._limits[driver] = np.full(len(self._rows), UNLIMITED, np.int64)
                    self._limits[driver][row] = limit
        return self._limits

    def _count_again(self, limits: Mapping[str, Ints]) -> None:
        if not limits:
            return
        for row in self._stale:
            for one in self._attached.pop(row, ()):
                self._counts[one[0]][row] -= 1
                _discard(self._on, one, row)
            for name in self._asking.pop(row, ()):
                _discard(self._asked, name, row)
            claims = [found for key in self._here.get(row, ()) if (found := self.claim(*key))]
            wanted = {self.attachment(one) for one in claims}
            attached = frozenset(one for one in wanted if one is not None and one[0] in limits)
            for one in attached:
                if one[0] not in self._counts:
                    self._counts[one[0]] = np.zeros(len(self._rows), np.int64)
                self._counts[one[0]][row] += 1
                self._on.setdefault(one, set()).add(row)
            names = frozenset(one.volume for one in claims if one.volume)
            for name in names:
                self._asked.setdefault(name, set()).add(row)
            if attached:
                self._attached[row] = attached
            if names:
                self._asking[row] = names
        self._stale.clear()


K = TypeVar("K")
V = TypeVar("V")


def _may_be_bound(volume: Volume, claim: Pvc) -> bool:
    """Whether an unclaimed volume of the claim's class may be the claim's, apart from its labels."""
    if volume.claim[1]:
        return volume.claim[:2] == (claim.namespace, claim.name)
    return (
        volume.phase == "Available"
        and volume.capacity_bytes >= claim.requested_bytes
        and volume.is_block == claim.is_block
        and set(claim.access_modes) <= set(volume.access_modes)
    )


def _add(counts: dict[K, dict[V, int]], key: K, one: V, sign: int) -> None:
    """Count up or down. A count of 0 takes no room."""
    found = counts.setdefault(key, {})
    found[one] = found.get(one, 0) + sign
    if not found[one]:
        del found[one]
        if not found:
            del counts[key]


def _discard(rows: dict[K, set[int]], key: K, row: int) -> None:
    rows[key].discard(row)
    if not rows[key]:
        del rows[key]

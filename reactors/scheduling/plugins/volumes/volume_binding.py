"""VolumeBinding: a pod needs a node with access to its volumes.

A pod with a bound claim fits the nodes of the volume's node affinity. A volume for its first pod (``WaitForFirstConsumer``) is
created within the storage class's topology, on the chosen node: before the pod is bound the node is written on the claim, and the
claim's binding awaited. A claim may fit an existing volume, or select volumes by labels. It is left to kube-scheduler, the writer
of such volumes: the pod waits, with this reason.

Source: Kubernetes, "Persistent Volumes", "Volume Binding Mode".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from bus.events.constraints import NodeSelectorTerm, Requirement
from bus.events.volumes import TopologyTerm
from projections.cluster.volumes import Pvc
from reactors.scheduling.columns.selectors import any_term, nodes_of
from reactors.scheduling.columns.table import Bools, Columns, Rows
from reactors.scheduling.framework.bind import DONE, Prepared
from reactors.scheduling.framework.bind_cycle import BindCycle
from reactors.scheduling.framework.claims import ClaimSelector, UnboundClaim
from reactors.scheduling.framework.contract import ONE_CHANGE, SKIP, Code, Cycle, Refused, Status
from reactors.scheduling.plugins.volumes.volume_restrictions import NOT_FOUND
from reactors.scheduling.queueing.hints import Hint

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOWHERE = "node(s) didn't find available persistent volumes to bind"
#: The provisioner of classes without dynamic volumes.
NOBODY = "kubernetes.io/no-provisioner"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class VolumeBinding(msgspec.Struct, frozen=True):
    """Bound claims, by the node affinity of their volumes; others by the nodes for a new volume."""

    name: ClassVar[str] = "VolumeBinding"
    is_local: ClassVar[bool] = False
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.CLAIM, Hint.VOLUME})

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """A pod waits while one of its claims is missing, lost, ending or not bound."""
        found = cycle.pod.constraints
        if found is None or not found.claims:
            return SKIP
        for name in found.claims:
            if why := _unusable(cycle, name, is_ephemeral=name in found.ephemeral_claims):
                return Status(Code.UNRESOLVABLE, why)
        why = next(_unbound(cycle), "")
        return Status(Code.UNRESOLVABLE, why) if why else None

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without access to one of the volumes, for the first refusing claim; and nodes without a new volume."""
        columns = cycle.columns
        left = np.ones(len(columns.nodes), np.bool_)
        conflict, missing, nowhere = (np.zeros_like(left) for _ in range(3))
        for claim in _claims(cycle):
            if not claim.is_bound:
                nowhere |= ~_possible(cycle, claim)
                continue
            if missing.any():
                continue
            volume = columns.volumes.volume(claim.volume)
            if volume is None:
                missing |= left
            elif volume.node_affinity is not None:
                reached = any_term(volume.node_affinity, columns)
                conflict |= left & ~reached
                left &= reached
        found = ((CONFLICT, conflict), (NOWHERE, nowhere), (MISSING, missing))
        return [one for reason, nodes in found for one in _refused(reason, nodes[rows])]

    async def pre_bind(self, cycle: BindCycle) -> Prepared:
        """Write the node on the unbound claims, and wait until they are bound."""
        claims = [
            UnboundClaim(
                one.namespace, one.name, one.uid, one.version, one.selected_node, one.is_bound
            )
            for one in cycle.known.columns.volumes.unbound(cycle.known.pod)
        ]
        if not claims:
            return DONE
        if self.name not in cycle.data:
            cycle.data[self.name] = ClaimSelector(cycle.cluster, cycle.now)
        selector: ClaimSelector = cycle.data[self.name]
        return await selector.select(cycle.placement, claims, cycle.now)

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Claim another volume."""
        return f"claim volumes that {cycle.columns.names[row]} reaches"


def _refused(reason: str, nodes: Bools) -> list[Refused]:
    return [Refused(reason, nodes, nodes)] if nodes.any() else []


def _claims(cycle: Cycle) -> Iterator[Pvc]:
    for name in cycle.pod.constraints.claims if cycle.pod.constraints else ():
        claim = cycle.columns.volumes.claim(cycle.pod.namespace, name)
        if claim is not None:
            yield claim


def _unusable(cycle: Cycle, name: str, *, is_ephemeral: bool) -> str:
    """The reason why a pod cannot use a claim, in kube-scheduler's words; "" = it can."""
    pod = cycle.pod
    claim = cycle.columns.volumes.claim(pod.namespace, name)
    if claim is None:
        if is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return NOT_FOUND.format(name)
    if claim.is_lost:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.is_terminating:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_ephemeral and claim.owner != pod.uid:
        # Another claim of this name may be created before the pod's own.
        return f"PVC {pod.namespace}/{name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
    return ""


def _unbound(cycle: Cycle) -> Iterator[str]:
    """The reason of the pod's wait for its claims."""
    volumes, waits = cycle.columns.volumes, ""
    for claim in _claims(cycle):
        if claim.is_bound:
            volume = volumes.volume(claim.volume)
            if volume is not None and volume.is_cut:
                yield f'the node affinity of persistentvolume "{volume.name}" is more than the history keeps (8 KiB)'
            continue
        if not volumes.waits(claim):
            yield UNBOUND
        elif not claim.selected_node and claim.has_selector:
            waits = waits or (
                f'persistentvolumeclaim "{claim.name}" selects volumes by their labels, which kube-scheduler alone does'
            )
        elif not claim.selected_node and (volume := volumes.candidate(claim)) is not None:
            waits = waits or (
                f'persistentvolumeclaim "{claim.name}" may be bound to the persistentvolume "{volume.name}" that exists, '
                "which kube-scheduler alone does"
            )
        elif (made_by := volumes.storage_class(claim.storage_class)) is not None and made_by.is_cut:
            yield f'the topologies of storageclass "{made_by.name}" are more than the history keeps (8 KiB)'
    if waits:
        yield waits


def _possible(cycle: Cycle, claim: Pvc) -> Bools:
    """The nodes for a new volume of a claim."""
    columns = cycle.columns
    count, made_by = len(columns.nodes), columns.volumes.storage_class(claim.storage_class)
    if made_by is None or made_by.provisioner in ("", NOBODY):
        return np.zeros(count, np.bool_)
    chosen = columns.volumes.chosen(claim)
    found = np.full(count, chosen is None)
    if chosen is not None:
        found[list(chosen)] = True
    if made_by.allowed_topologies:
        found &= np.logical_or.reduce(
            [_fitting(one, columns) for one in made_by.allowed_topologies]
        )
    return found


def _fitting(term: TopologyTerm, columns: Columns) -> Bools:
    parts = tuple(
        Requirement(one.key, "In", one.values) for one in term.match_label_expressions or ()
    )
    return nodes_of(NodeSelectorTerm(parts), columns)

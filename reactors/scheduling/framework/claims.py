"""Writes the node of a pod on its claims, so their volumes are created there. Also returns the pause before the next check.

One write for each claim, on the condition of its uid and version, so another program's node stays. If the node is removed again,
the provisioner could create no volume there: the pod needs another node.

Source: Kubernetes, "Storage Classes", "Volume Binding Mode"; external-provisioner, "rescheduling".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from bus.crashpoints import crashpoint
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from reactors.scheduling.framework.bind import LONGEST, Json, Placement, Prepared

#: On a claim: the node for its new volume.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: Between two checks of a claim: this, and more the longer it takes.
LOOK_SECONDS = 1.0
LESS_OFTEN = 0.25


class UnboundClaim(msgspec.Struct, frozen=True):
    """A claim as last observed. ``node``: its node; "" = none. ``is_bound``: its volume was not observed yet."""

    namespace: str
    name: str
    uid: str
    version: str
    node: str
    is_bound: bool = False


class Claims(Protocol):
    """The methods of :class:`bus.kube.client.KubeCluster` needed here, with its errors."""

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """Set the named fields; ``uid`` and ``resourceVersion`` are preconditions."""
        ...


class ClaimSelector:
    """The claims of one pod: keeps its writes while the pod is outstanding."""

    def __init__(self, cluster: Claims, now: float) -> None:
        """``now``: seconds of the caller's clock."""
        self._cluster = cluster
        self._since = now
        #: By claim: the version made by a write.
        self._written: dict[str, str] = {}

    async def select(
        self, placement: Placement, claims: Sequence[UnboundClaim], now: float
    ) -> Prepared:
        """Write the pod's node on each claim without one. An API server cannot cause an exception."""
        delay = max(LOOK_SECONDS, LESS_OFTEN * (now - self._since))
        written = self._written
        for claim in claims:
            if claim.is_bound or claim.node == placement.node:
                continue
            if claim.node:
                return Prepared(why=f"the volume of {claim.name} is made on {claim.node}")
            if claim.uid in written:
                if _is_older(claim.version, written[claim.uid]):
                    # The last write was not observed yet.
                    continue
                return Prepared(why=f"no volume could be made for {claim.name} on {placement.node}")
            found = await self._name(placement.node, claim)
            if found is not None:
                return found if found.why else Prepared(max(found.delay_seconds, delay))
        return Prepared(delay)

    async def _name(self, node: str, claim: UnboundClaim) -> Prepared | None:
        path = f"/api/v1/namespaces/{claim.namespace}/persistentvolumeclaims/{claim.name}"
        metadata = {
            "uid": claim.uid,
            "resourceVersion": claim.version,
            "annotations": {SELECTED_NODE: node},
        }
        crashpoint("bind.before_claim")
        try:
            made = await self._cluster.merge(path, {"metadata": metadata})
            self._written[claim.uid] = str(made["metadata"]["resourceVersion"])
        except ConflictError:
            # It was changed meanwhile; the next observation has the new state.
            return Prepared(LOOK_SECONDS)
        except ClusterUnavailableError as error:
            return Prepared(max(error.delay_seconds, LOOK_SECONDS))
        except (MalformedJsonError, KeyError, TypeError):
            # The write may have succeeded; the next observation shows it.
            return Prepared(LOOK_SECONDS)
        except (NotFoundError, PermissionDeniedError, RequestRefusedError) as error:
            return Prepared(why=f"{claim.name}: {error}"[:LONGEST])
        crashpoint("bind.after_claim")
        return None


def _is_older(version: str, than: str) -> bool:
    if version.isdigit() and than.isdigit():
        return int(version) < int(than)
    # The result is unknown; the pod waits until its time is over.
    return True

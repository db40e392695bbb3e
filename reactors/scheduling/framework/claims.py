"""Names the node of a pod on its claims, so that their volumes are made there, and says how long to wait.

One write for each claim, on the condition of its uid and version, so a node that somebody else named meanwhile stays. Where the
node is taken away again, whoever makes volumes could make none there: the pod needs another node.

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

#: On a claim: the node for which its volume is to be made.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: Between two looks at a claim: this, and more the longer it takes.
LOOK_SECONDS = 1.0
LESS_OFTEN = 0.25


class UnboundClaim(msgspec.Struct, frozen=True):
    """A claim as it was seen last. ``node``: the one that it names; "" = none. ``is_bound``: its volume was not seen yet."""

    namespace: str
    name: str
    uid: str
    version: str
    node: str
    is_bound: bool = False


class Claims(Protocol):
    """The part of :class:`bus.kube.client.KubeCluster` that is needed here, with its errors."""

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """Set the named fields; ``uid`` and ``resourceVersion`` are preconditions."""
        ...


class ClaimSelector:
    """Of one pod: remembers what was written, for as long as it is to be bound."""

    def __init__(self, cluster: Claims, now: float) -> None:
        """``now``: seconds of the caller's clock."""
        self._cluster = cluster
        self._since = now
        #: By claim: the version that a write made.
        self._written: dict[str, str] = {}

    async def select(
        self, placement: Placement, claims: Sequence[UnboundClaim], now: float
    ) -> Prepared:
        """Name the pod's node on each claim that names none. Raises nothing that an API server can cause."""
        delay = max(LOOK_SECONDS, LESS_OFTEN * (now - self._since))
        written = self._written
        for claim in claims:
            if claim.is_bound or claim.node == placement.node:
                continue
            if claim.node:
                return Prepared(why=f"the volume of {claim.name} is made on {claim.node}")
            if claim.uid in written:
                if _is_older(claim.version, written[claim.uid]):
                    # What was written was not seen yet.
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
            # It was changed meanwhile; what it says now is seen soon.
            return Prepared(LOOK_SECONDS)
        except ClusterUnavailableError as error:
            return Prepared(max(error.delay_seconds, LOOK_SECONDS))
        except (MalformedJsonError, KeyError, TypeError):
            # It may have been written, which is seen then.
            return Prepared(LOOK_SECONDS)
        except (NotFoundError, PermissionDeniedError, RequestRefusedError) as error:
            return Prepared(why=f"{claim.name}: {error}"[:LONGEST])
        crashpoint("bind.after_claim")
        return None


def _is_older(version: str, than: str) -> bool:
    if version.isdigit() and than.isdigit():
        return int(version) < int(than)
    # Nobody can say; the pod waits until its time is over.
    return True

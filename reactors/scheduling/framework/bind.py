"""Binds a pod to its node by the Binding subresource, on the condition of its uid. At most once, and never to another node.

The decision's id and the devices are annotations of the binding, in the one write with the node. A lost answer is no failure: the
pod itself shows its node. A pod on the decided node is bound, by any author.

Source: Kubernetes API reference, "Binding"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol

import msgspec

from bus.crashpoints import crashpoint
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
    UnknownRightsError,
)

Json = dict[str, Any]

#: On a bound pod: the id of its decision, and its devices of the node, by name with commas between.
DECISION = "bursar.io/decision"
DEVICES = "bursar.io/devices"
CPUS = "scheduling.koordinator.sh/resource-status"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"

TOO_MANY = 429
#: Longest kept text of the API server.
LONGEST = 500

#: ``bound``: it is on its node. ``elsewhere``: another program bound it to another node. ``gone``: it ends or ended, or another
#: pod has its name. ``refused``: the API server rejects this one. ``denied``: the right to bind is missing. ``later``: nothing was
#: done, or the result is unknown.
Outcome = Literal["bound", "elsewhere", "gone", "refused", "denied", "later"]


class Placement(msgspec.Struct, frozen=True):
    """The decided node of a pod, with its decision and its devices of the node.

    ``profile`` and ``passed`` name the pass: its profile and its sequence.
    """

    namespace: str
    name: str
    uid: str
    node: str
    decision: str
    devices: tuple[str, ...] = ()
    profile: str = ""
    passed: int = 0
    #: Its CPUs and NUMA nodes on the node, for Koordinator's node agent; "" = not decided.
    cpus: str = ""
    #: It is a reservation, not a pod; its time is that of the decision.
    is_reservation: bool = False
    at_us: int = 0


class Outcomes(msgspec.Struct, frozen=True):
    """The result of a placement, with its reason; of ``later``, the pause before the next attempt."""

    outcome: Outcome
    message: str = ""
    delay_seconds: float = 0.0


class Prepared(msgspec.Struct, frozen=True):
    """A preparation's result: done; not yet, with a delay in seconds; or a reason against the node."""

    delay_seconds: float = 0.0
    why: str = ""


DONE = Prepared()


class Bindings(Protocol):
    """The methods of :class:`bus.kube.client.KubeCluster` needed here, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...

    async def bind(
        self, namespace: str, pod: str, *, uid: str, node: str, annotations: Mapping[str, str]
    ) -> None:
        """Give the pod its node."""
        ...


async def bind(
    cluster: Bindings, placement: Placement, further: Mapping[str, str] = MappingProxyType({})
) -> Outcomes:
    """Bind a pod, with ``further`` annotations, or report the obstacle. An API server cannot cause an exception."""
    annotations = {**further, DECISION: placement.decision}
    if placement.devices:
        annotations[DEVICES] = ",".join(placement.devices)
    if placement.cpus:
        annotations[CPUS] = placement.cpus
    crashpoint("bind.before_post")
    try:
        await cluster.bind(
            placement.namespace, placement.name, uid=placement.uid, node=placement.node,
            annotations=annotations,
        )  # fmt: skip
    except NotFoundError as error:
        return Outcomes("gone", error.message[:LONGEST])
    except PermissionDeniedError as error:
        is_none = isinstance(error, UnknownRightsError)
        return Outcomes("denied" if is_none else "refused", str(error)[:LONGEST])
    except RequestRefusedError as error:
        return Outcomes("refused", error.message[:LONGEST])
    except ConflictError as error:
        return await seen(cluster, placement, Outcomes("refused", error.message[:LONGEST]))
    except ClusterUnavailableError as error:
        later = Outcomes("later", str(error)[:LONGEST], error.delay_seconds)
        # Only after these answers the bind was certainly not done.
        return later if error.status == TOO_MANY else await seen(cluster, placement, later)
    except MalformedJsonError as error:
        return await seen(cluster, placement, Outcomes("later", str(error)[:LONGEST], 1.0))
    crashpoint("bind.after_post")
    return Outcomes("bound")


async def seen(cluster: Bindings, placement: Placement, otherwise: Outcomes) -> Outcomes:
    """The pod's own state; ``otherwise`` if it is the same pod, waits, and does not end.

    An API server cannot cause an exception.
    """
    path = f"/api/v1/namespaces/{placement.namespace}/pods/{placement.name}"
    part = "spec"
    if placement.is_reservation:
        path, part = f"{RESERVATIONS}/{placement.name}", "status"
    try:
        pod = await cluster.get(path)
        metadata, node = pod["metadata"], pod.get(part, {}).get("nodeName", "")
        uid, ends = metadata["uid"], "deletionTimestamp" in metadata
    except NotFoundError as error:
        return Outcomes("gone", error.message[:LONGEST])
    except PermissionDeniedError as error:
        return Outcomes("denied", str(error)[:LONGEST])
    except (
        ClusterUnavailableError,
        MalformedJsonError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        delay = error.delay_seconds if isinstance(error, ClusterUnavailableError) else 1.0
        return Outcomes("later", f"nobody can say whether it was bound: {error}"[:LONGEST], delay)
    if uid != placement.uid:
        return Outcomes("gone", "another pod has this name")
    if node == placement.node:
        return Outcomes("bound")
    if node:
        return Outcomes("elsewhere", f"bound to {node}")
    return Outcomes("gone", "being deleted") if ends else otherwise

"""Writes the node of a reservation into its status, on the condition of its version; never another node.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 Reservation; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bus.clock import SECOND_US, format_stamp
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.events.pods import ReservationCondition
from bus.kube.crds.keys import resource_text
from projections.cluster.reservations import PENDING, Status
from reactors.scheduling.framework.bind import LONGEST, RESERVATIONS, Json, Outcomes, Placement
from reactors.scheduling.reservations import rules

#: Before a second write of a status changed meanwhile.
AGAIN_SECONDS = 1.0


class ReservationWrites(Protocol):
    """The methods of :class:`bus.kube.client.KubeCluster` needed here, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...

    async def merge(self, path: str, body: Mapping[str, Any]) -> Json:
        """Set the named fields; a ``resourceVersion`` is a precondition."""
        ...


async def reserve(
    cluster: ReservationWrites, placement: Placement, amounts: Mapping[str, int]
) -> Outcomes:
    """Make a reservation available on its node, or report the obstacle. An API server cannot cause an exception."""
    path = f"{RESERVATIONS}/{placement.name}"
    try:
        found = await cluster.get(path)
        metadata, status = found["metadata"], found.get("status") or {}
        if metadata["uid"] != placement.uid or "deletionTimestamp" in metadata:
            return Outcomes("gone", "another reservation has this name, or it is being deleted")
        if node := status.get("nodeName"):
            return Outcomes("bound") if node == placement.node else Outcomes("elsewhere", str(node))
        if status.get("phase", "") not in ("", PENDING):
            return Outcomes("gone", f"it is {status['phase']}"[:LONGEST])
        wanted = rules.scheduled(Status(), placement.node, amounts)
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": {
                "phase": wanted.phase, "nodeName": wanted.node, "allocatable": texts(wanted.allocatable),
                "allocated": texts(wanted.allocated), "currentOwners": [],
                "conditions": conditions(wanted.conditions, placement.at_us),
            },
        }  # fmt: skip
        await cluster.merge(f"{path}/status", body)
    except NotFoundError as error:
        return Outcomes("gone", error.message[:LONGEST])
    except PermissionDeniedError as error:
        return Outcomes("denied", str(error)[:LONGEST])
    except RequestRefusedError as error:
        return Outcomes("refused", error.message[:LONGEST])
    except ConflictError as error:
        return Outcomes("later", error.message[:LONGEST], AGAIN_SECONDS)
    except ClusterUnavailableError as error:
        return Outcomes("later", str(error)[:LONGEST], error.delay_seconds)
    except (MalformedJsonError, KeyError, TypeError, AttributeError) as error:
        return Outcomes("later", f"nobody can say whether it has a node: {error}"[:LONGEST], 1.0)
    return Outcomes("bound")


def texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts in an object's form."""
    return {name: resource_text(name, amount) for name, amount in sorted(amounts.items())}


def conditions(found: Sequence[ReservationCondition], at_us: int) -> list[Json]:
    """Conditions in an object's form; new ones begin at ``at_us``."""
    since = format_stamp(at_us // SECOND_US * SECOND_US)
    return [
        {
            "type": one.type, "status": "True" if one.is_true else "False", "reason": one.reason, "message": one.message,
            "lastTransitionTime": one.changed or since, "lastProbeTime": one.probed or since,
        }
        for one in found
    ]  # fmt: skip

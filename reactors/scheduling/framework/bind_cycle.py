"""The input of plugins for the binding of a pod.

It is imported where nothing is scheduled, so it imports nothing that computes.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from reactors.scheduling.framework.bind import Bindings, Placement
from reactors.scheduling.framework.claims import Claims
from reactors.scheduling.framework.reserve import ReservationWrites

if TYPE_CHECKING:
    from projections.cluster import Pod
    from reactors.scheduling.columns.table import Columns


class BindClient(Bindings, Claims, ReservationWrites, Protocol):
    """The client that plugins bind with: the part of :class:`bus.kube.client.KubeCluster` that they need."""


class Known(msgspec.Struct, frozen=True):
    """What was observed until now: the pod, or the one that stands for a reservation, and the cluster."""

    pod: Pod
    columns: Columns
    #: What plugins have written on the pod in the write that gives it its node, as of the moment of the call.
    annotations: Callable[[], Mapping[str, str]]


class BindCycle(msgspec.Struct, frozen=True):
    """One try to bind a pod on the node that was decided."""

    placement: Placement
    known: Known
    cluster: BindClient
    #: When the try began, in seconds of a clock that only goes on.
    now: float
    #: By plugin: what it keeps between the tries of this decision in this process.
    data: dict[str, Any]
    #: Tells people that the pod was bound.
    tell: Callable[[Placement], None]

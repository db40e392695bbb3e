"""The input of plugins for the binding of a pod.

Processes without scheduling import this module, so it imports no computing modules.

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
    """The client for binding plugins: the methods of :class:`bus.kube.client.KubeCluster` needed by them."""


class Known(msgspec.Struct, frozen=True):
    """The observed state until now: the pod, or the one standing for a reservation, and the cluster."""

    pod: Pod
    columns: Columns
    #: The plugins' annotations for the pod's binding, as of the moment of the call.
    annotations: Callable[[], Mapping[str, str]]


class BindCycle(msgspec.Struct, frozen=True):
    """One attempt to bind a pod to the decided node."""

    placement: Placement
    known: Known
    cluster: BindClient
    #: The start of the attempt, in seconds of a monotonic clock.
    now: float
    #: By plugin: its data between the attempts of this decision in this process.
    data: dict[str, Any]
    #: Tells people about the pod's bind.
    tell: Callable[[Placement], None]

"""DefaultBinder: gives a pod its node by the Binding subresource. The write carries what other plugins have written on the pod.

It takes every pod on, so it comes last. Reservations are no pods, and not its own.

Source: Kubernetes, "Scheduling Framework", "Bind"; docs/scheduling.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from reactors.scheduling.framework.bind import Outcomes, bind
from reactors.scheduling.framework.bind_cycle import BindCycle


class DefaultBinder(msgspec.Struct, frozen=True):
    """Binds pods, and says so."""

    name: ClassVar[str] = "DefaultBinder"
    is_local: ClassVar[bool] = True

    async def bind_pod(self, cycle: BindCycle) -> Outcomes | None:
        """Bind a pod; nothing for a reservation."""
        if cycle.placement.is_reservation:
            return None
        return await bind(cycle.cluster, cycle.placement, cycle.known.annotations())

    def post_bind(self, cycle: BindCycle) -> None:
        """Tell people where the pod is; a reservation is told in its own status."""
        if not cycle.placement.is_reservation:
            cycle.tell(cycle.placement)

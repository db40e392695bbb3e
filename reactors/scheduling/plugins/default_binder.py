"""DefaultBinder: binds a pod by the Binding subresource. The write carries the annotations of other plugins.

It accepts every pod, so it comes last. Reservations are not pods, and belong to another plugin.

Source: Kubernetes, "Scheduling Framework", "Bind"; docs/scheduling.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from reactors.scheduling.framework.bind import Outcomes, bind
from reactors.scheduling.framework.bind_cycle import BindCycle


class DefaultBinder(msgspec.Struct, frozen=True):
    """Binds pods, and reports it on them."""

    name: ClassVar[str] = "DefaultBinder"
    is_local: ClassVar[bool] = True

    async def bind_pod(self, cycle: BindCycle) -> Outcomes | None:
        """Bind a pod; nothing for a reservation."""
        if cycle.placement.is_reservation:
            return None
        return await bind(cycle.cluster, cycle.placement, cycle.known.annotations())

    def post_bind(self, cycle: BindCycle) -> None:
        """Report a pod's node to people; a reservation has it in its own status."""
        if not cycle.placement.is_reservation:
            cycle.tell(cycle.placement)

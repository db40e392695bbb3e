"""ADAPTER: writes the scheduler's statuses of reservations over differing ones.

Each write has the observed version as its condition, at a bounded rate; the status of a reservation refused by every node is
written once a minute at most. A reservation is reported as lost with its node only if the API server has no such node.

Source: koordinator-sh/koordinator, "Resource Reservation"; docs/scheduling.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from bus.clock import SECOND_US, Clock
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from reactors.admission.deciding.rate import Buckets, Rate
from reactors.scheduling.framework.bind import RESERVATIONS, Json
from reactors.scheduling.framework.reserve import ReservationWrites, conditions, texts

if TYPE_CHECKING:
    from reactors.scheduling.cycle.reservation_statuses import Wanted

#: Writes of all reservations together.
ALL = Rate(per_second=10, burst=50)
#: Between two failed writes to one version of a reservation, and between two reasons of its refusal by all nodes.
AGAIN_US = 10 * SECOND_US
APART_US = 60 * SECOND_US
LOOK_SECONDS = 1.0
#: Types of the conditions written by the scheduler.
OURS = ("Scheduled", "Ready")


class StatusWrites(ReservationWrites, Protocol):
    """The methods of :class:`bus.kube.client.KubeCluster` needed here, with its errors."""

    async def delete(self, path: str, *, uid: str) -> Json:
        """Delete the object at ``path`` if it still has this uid."""
        ...


class ReservationStatuses:
    """The writer of reservations' statuses. One for a cluster, in the binding process."""

    def __init__(self, cluster: StatusWrites, clock: Clock) -> None:
        #: The API server's reason for refusing statuses, in its words; "" = none.
        self.trouble = ""
        self._cluster, self._clock = cluster, clock
        #: By reservation: the earliest time of its next write.
        self._after_us: dict[str, int] = {}
        self._all = Buckets(ALL)

    async def write(self, wanted: Iterable[Wanted]) -> None:
        """Write the due statuses within the rate. Raises ClusterUnavailableError."""
        found = list(wanted)
        uids = {one.row.uid for one in found}
        now_us = self._clock.now_us()
        self._after_us = {uid: at for uid, at in self._after_us.items() if uid in uids or at > now_us}  # fmt: skip
        for one in found:
            uid = one.row.uid
            if now_us < self._after_us.get(uid, 0):
                continue
            if not self._all.takes("", now_us):
                return
            is_reported = one.status is not None and one.status.phase == one.row.phase == "Pending"
            self._after_us[uid] = now_us + (APART_US if is_reported else AGAIN_US)
            await self._tried(one)

    async def _tried(self, one: Wanted) -> None:
        path = f"{RESERVATIONS}/{one.row.name}"
        try:
            if one.status is None:
                await self._cluster.delete(path, uid=one.row.uid)
            elif not one.lost or await self._is_lost(one.lost):
                await self._cluster.merge(f"{path}/status", self._body(one))
            self.trouble = ""
        except (NotFoundError, ConflictError, MalformedJsonError):
            # It changed meanwhile, or is gone: the next observation decides.
            return
        except (PermissionDeniedError, RequestRefusedError) as error:
            self.trouble = str(error)

    async def _is_lost(self, node: str) -> bool:
        try:
            await self._cluster.get(f"/api/v1/nodes/{quote(node, safe='')}")
        except NotFoundError:
            return True
        return False

    def _body(self, one: Wanted) -> dict[str, Any]:
        assert one.status is not None
        known = {(c.type, c.is_true): c for c in one.row.conditions}
        shown = [known.get((c.type, c.is_true), c) for c in one.status.conditions]
        shown = [
            type(new)(new.type, new.is_true, new.reason, new.message, old.changed, old.probed)
            for new, old in zip(one.status.conditions, shown, strict=True)
        ]
        # A fact has the first few only, so the scheduler's own come first: they have to be observed again.
        shown.sort(key=lambda one: one.type not in OURS)
        allocated = dict.fromkeys(one.row.allocated) | texts(one.status.allocated)
        return {
            "metadata": {"resourceVersion": one.row.version},
            "status": {
                "phase": one.status.phase, "allocated": allocated,
                "currentOwners": [{"namespace": pod.namespace, "name": pod.name, "uid": pod.uid} for pod in one.owners],
                "conditions": conditions(shown, self._clock.now_us()),
            },
        }  # fmt: skip


async def writing(statuses: ReservationStatuses, look: Callable[[], Iterable[Wanted]]) -> None:
    """Write for ever."""
    while True:
        try:
            await statuses.write(look())
        except ClusterUnavailableError as error:
            await asyncio.sleep(error.delay_seconds)
        await asyncio.sleep(LOOK_SECONDS)

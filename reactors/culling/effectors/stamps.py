"""ADAPTER: writes Kubeflow's stamps of activity on Notebooks, round after round, while culling is on.

The stamps are for display; Bursar's own rules never read them back. So they are not decisions: the next round repairs a lost
write. Like every effect they are held by shadow mode, a pause and the interlocks. A Notebook is read before
the write, and written on the condition of its uid and version. A successor of the same name is left alone.
A deleted Notebook stays deleted, and one that was stopped meanwhile gets none.

Source: docs/culling.md; :mod:`reactors.culling.stamps` has the values and times of stamps.
"""

from __future__ import annotations

import asyncio
import logging

from bus.clock import SECOND_US, Clock
from bus.crashpoints import crashpoint
from bus.errors import (
    ConflictError,
    MalformedJsonError,
    NotFoundError,
    ObservationError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.events.decisions import Target
from reactors.culling.effectors.effector import CullClient
from reactors.culling.effectors.patches import annotations_of, patch_of, path_of
from reactors.culling.policy import CullingPolicy
from reactors.culling.stamps import Stamping, changes, stampings
from reactors.culling.state import NAME, NOTEBOOK, CullingState
from reactors.effectors.rounds import all_of, every, in_force
from reactors.engine.replica import Replica

ROUND_SECONDS = 10.0
#: Notebooks written in one round, and at once: 20 a second at most.
MOST = 200
AT_ONCE = 4
#: After a refusal, so long a Notebook is left alone.
REST_US = 600 * SECOND_US

_log = logging.getLogger(__name__)


class StampWriter:
    """Keeps the stamps of all Notebooks of ``replica``."""

    def __init__(self, replica: Replica, cluster: CullClient, clock: Clock) -> None:
        self._replica = replica
        self._cluster = cluster
        self._clock = clock
        self._rests_until_us: dict[str, int] = {}

    async def run(self) -> None:
        """Round after round, for ever."""
        await every(ROUND_SECONDS, self.round, "stamps of activity")

    async def round(self) -> int:
        """Write the due stamps; the number of written Notebooks. Raises RetryableError."""
        now_us = self._clock.now_us()
        self._rests_until_us = {u: at for u, at in self._rests_until_us.items() if at > now_us}
        wanted = [one for one in self._wanted(now_us) if one.uid not in self._rests_until_us]
        slots = asyncio.Semaphore(AT_ONCE)

        async def write(stamping: Stamping) -> int:
            async with slots:
                # Effects may have been held while others were written.
                is_held = in_force(self._replica, NAME, self._clock.now_us()) is None
                return 0 if is_held else await self._write(stamping)

        return sum(await all_of(map(write, wanted[:MOST])))

    def _wanted(self, now_us: int) -> list[Stamping]:
        policy, view = in_force(self._replica, NAME, now_us), self._replica.states[NAME]
        if policy is None:
            return []
        assert isinstance(view, CullingState) and isinstance(policy, CullingPolicy)
        return stampings(view, policy, now_us)

    async def _write(self, stamping: Stamping) -> int:
        """1 = it was written. An object that changed meanwhile is read again in the next round."""
        path = path_of(Target(NOTEBOOK, stamping.namespace, stamping.name, stamping.uid))
        try:
            found = await self._cluster.get(path)
            is_other = found["metadata"]["uid"] != stamping.uid
            if is_other or "deletionTimestamp" in found["metadata"]:
                return 0
            annotations = changes(stamping, annotations_of(found))
            if not annotations:
                return 0
            crashpoint("stamp.before_write")
            await self._cluster.merge(path, patch_of(found, annotations))
            crashpoint("stamp.after_write")
        except (NotFoundError, ConflictError, MalformedJsonError, ObservationError) as error:
            _log.debug("notebook %s is not stamped now: %s", stamping.uid, error)
            return 0
        except (PermissionDeniedError, RequestRefusedError) as error:
            self._rests_until_us[stamping.uid] = self._clock.now_us() + REST_US
            _log.warning("notebook %s is not stamped: %s", stamping.uid, error)
            return 0
        return 1

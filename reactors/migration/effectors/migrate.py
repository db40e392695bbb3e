"""Creates the Reservations of migrations, writes the status of PodMigrationJobs, and deletes both. At most once for each decision.

- *Reserve*: the Reservation has the job's uid as its name, so a second creation changes nothing. An object of that name with
  another owner is refused. Then the job gets the name of its reservation.
- *Report*: one merge patch on the condition of the uid and of the version read. An ended job stays ended.
- *End*: on the condition of the uid.

Source: docs/migration.md; docs/architecture.md (effectors).
"""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote

from bus.clock import Clock
from bus.crashpoints import crashpoint
from bus.errors import ConflictError, DemandError, NotFoundError
from bus.events.decisions import Decision
from bus.events.migrations import EndMigration, EndReservation, ReportMigration, ReserveRoom
from reactors.effectors.making import DONE, NAMESAKE, Json, Outcome, is_of, made
from reactors.engine.adapters import Cluster
from reactors.migration.effectors import bodies
from reactors.migration.effectors.bodies import MIGRATIONS, RESERVATIONS
from reactors.migration.shape import OPEN

#: Reads of a changing job, before it waits for the next round.
ATTEMPTS = 3


class MigrationEffector:
    """The effector of migration steps. Implements :class:`reactors.engine.adapters.Effector`."""

    #: The decisions executed by it.
    verbs: ClassVar[tuple[type[Decision], ...]] = (
        ReserveRoom, ReportMigration, EndReservation, EndMigration,
    )  # fmt: skip

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock

    async def act(self, decision: Decision) -> Outcome:
        """Execute one step, unless it is done, or its name belongs to another object."""
        if isinstance(decision, ReserveRoom):
            return await self._reserve(decision)
        if isinstance(decision, ReportMigration):
            return await self._report(decision)
        if isinstance(decision, EndReservation):
            return await self._end_room(decision)
        return await self._end_job(decision)

    async def _reserve(self, decision: ReserveRoom) -> Outcome:
        job = await self._job(decision)
        if job is None:
            return NAMESAKE
        if job["spec"].get("paused") or "deletionTimestamp" in job["metadata"]:
            return "stale", "the job is paused, or is being deleted"
        if (job.get("status") or {}).get("phase", "") not in OPEN:
            return "stale", "the job ended already"
        target = decision.pod
        pod = await self._cluster.get(f"/api/v1/namespaces/{target.namespace}/pods/{target.name}")
        if pod["metadata"]["uid"] != target.uid:
            return "stale", "the pod is gone"
        if "deletionTimestamp" in pod["metadata"]:
            return "refused", "the pod is being deleted"
        try:
            body = bodies.reservation(job, pod, self._clock.now_us())
        except DemandError as error:
            return "refused", str(error)
        crashpoint("migration.before_reserve")
        name = body["metadata"]["name"]
        try:
            fault = await made(self._cluster, RESERVATIONS, body, decision.target.uid)
        except NotFoundError:
            return "refused", "this cluster has no Reservations: install Koordinator's kinds"
        if fault:
            return "refused", f"the reservation {name} {fault}"
        crashpoint("migration.after_reserve")
        room = await self._cluster.get(_path(RESERVATIONS, name))
        path = _path(MIGRATIONS, decision.target.name)
        await self._cluster.merge(path, bodies.named(job, pod, room))
        return DONE

    async def _report(self, decision: ReportMigration) -> Outcome:
        for last in range(ATTEMPTS):
            job = await self._job(decision)
            if job is None:
                return NAMESAKE
            phase = (job.get("status") or {}).get("phase", "")
            if phase not in OPEN:
                return DONE if phase == decision.phase else ("stale", "the job ended already")
            body = bodies.status(job, decision, self._clock.now_us())
            crashpoint("migration.before_report")
            try:
                await self._cluster.merge(f"{_path(MIGRATIONS, decision.target.name)}/status", body)
                break
            except ConflictError:
                if last == ATTEMPTS - 1:
                    raise
        crashpoint("migration.after_report")
        return DONE

    async def _end_room(self, decision: EndReservation) -> Outcome:
        """Delete a reservation that was made for its job. Another one may have the name."""
        room = await self._cluster.get(_path(RESERVATIONS, decision.target.name))
        if not is_of(room, decision.job):
            return NAMESAKE
        return await self._end(RESERVATIONS, decision.target.name, decision.target.uid)

    async def _end_job(self, decision: Decision) -> Outcome:
        uid = decision.target.uid
        try:
            room = await self._cluster.get(_path(RESERVATIONS, uid))
            if is_of(room, uid):
                await self._end(RESERVATIONS, uid, room["metadata"]["uid"])
        except NotFoundError:
            pass
        return await self._end(MIGRATIONS, decision.target.name, uid)

    async def _end(self, collection: str, name: str, uid: str) -> Outcome:
        crashpoint("migration.before_end")
        try:
            await self._cluster.delete(_path(collection, name), uid=uid)
        except ConflictError:
            return NAMESAKE
        crashpoint("migration.after_end")
        return DONE

    async def _job(self, decision: Decision) -> Json | None:
        """The current job; None if another job has its name."""
        found = await self._cluster.get(_path(MIGRATIONS, decision.target.name))
        return found if found["metadata"]["uid"] == decision.target.uid else None


def _path(collection: str, name: str) -> str:
    return f"{collection}/{quote(name, safe='')}"

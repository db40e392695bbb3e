"""Makes and deletes the pods and services of training jobs, and writes their status. At most once for each decision.

- *Create*: the name of a pod is its slot and its attempt, so two requests make one. A taken name counts as done if its
  object belongs to the job by its uid, and to the slot by its labels. If not, the step is refused. An object in deletion is
  awaited.
- *Delete*: on the condition of the uid. The pod's service goes first, if the pod is not made again.
- *Adopt* and *release*: one merge patch of the owners, on the condition of the read version. Only objects without a controller
  are adopted, after a fresh read of the job itself.
- *Status*: one merge patch on the condition of the uid and of the read version. An ended job stays ended. Then the
  Events of the changed conditions (:mod:`reactors.jobs.effectors.notices`): a rejected one is left out, and logged.

Source: docs/jobs.md; docs/architecture.md (effectors).
"""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

from bus.crashpoints import crashpoint
from bus.errors import (
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    ObservationError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.events.decisions import (
    AdoptReplica,
    CreateReplica,
    Decision,
    DeleteJob,
    DeleteReplica,
    ReleaseReplica,
    ReportJob,
)
from reactors.effectors.making import (
    DONE,
    LONGEST,
    NAMESAKE,
    Json,
    MakingClient,
    Outcome,
    is_of,
    made,
)
from reactors.jobs.effectors import bodies, notices
from reactors.jobs.replicas import replica_name
from reactors.jobs.shape import JobStatus, Slot
from reactors.jobs.steps import SERVICE_MISSING, is_same

#: Attempts on a job that changes between read and write, before it waits for the next round.
ATTEMPTS = 3
#: Why a pod is deleted to be made again: its service stays.
REPLACED = frozenset({"failed_retryable", "doubled"})
#: Why an Event is not written: the right to is missing, the namespace ends, the API server is away or takes none.
_UNTOLD = (
    ClusterUnavailableError, ConflictError, NotFoundError, PermissionDeniedError, RequestRefusedError,
)  # fmt: skip

_log = logging.getLogger(__name__)


class JobEffector:
    """Does the steps of training jobs. Keeps :class:`reactors.engine.adapters.Effector`."""

    #: Its decisions.
    verbs: ClassVar[tuple[type[Decision], ...]] = (
        CreateReplica, DeleteReplica, AdoptReplica, ReleaseReplica, ReportJob, DeleteJob,
    )  # fmt: skip

    def __init__(self, cluster: MakingClient) -> None:
        self._cluster = cluster
        #: Reads of jobs in progress, by path: pods of one job made at the same time share one read.
        self._readings: dict[str, asyncio.Future[Json]] = {}
        #: Kinds of logged errors.
        self._logged: set[type[Exception]] = set()

    async def act(self, decision: Decision) -> Outcome:
        """Do one step, unless it is done, or is about another object by now."""
        try:
            if isinstance(decision, CreateReplica):
                return await self._create(decision)
            if isinstance(decision, DeleteReplica):
                return await self._delete(decision)
            if isinstance(decision, AdoptReplica | ReleaseReplica):
                return await self._claim(decision)
            if isinstance(decision, ReportJob):
                return await self._report(decision)
            return await self._end(decision)
        except ObservationError as error:
            # Only its user can mend it: it rests like an object refused by the API server.
            return "refused", str(error)[:LONGEST]

    async def _create(self, decision: CreateReplica) -> Outcome:
        found = await self._read(self._path(decision))
        job = bodies.job_in(decision.target.kind, found)
        if job.uid != decision.target.uid:
            return NAMESAKE
        index, spec = decision.numbers["index"], job.spec.replicas.get(decision.type)
        if job.is_deleting or job.spec.suspend or spec is None or index >= spec.count:
            return "stale", "the job does not ask for it any more"
        if job.is_too_large:
            return "stale", "the job asks for too many pods"
        bodies.check_template(found, job, decision.type)
        slot = Slot(decision.type, index, replica_name(job.name, decision.type, index))
        core = f"/api/v1/namespaces/{job.namespace}"
        crashpoint("job.before_create")
        body = bodies.service(found, job, slot, decision.id)
        taken = await made(
            self._cluster, f"{core}/services", body, job.uid, bodies.place_fault(body)
        )
        if taken:
            return "refused", f"the service {slot.name} {taken}"
        crashpoint("job.after_service")
        if decision.reason == SERVICE_MISSING:
            return DONE
        body = bodies.pod(found, job, slot, decision)
        taken = await made(self._cluster, f"{core}/pods", body, job.uid, bodies.place_fault(body))
        if taken:
            return "refused", f"the pod {decision.replica} {taken}"
        crashpoint("job.after_create")
        return DONE

    async def _delete(self, decision: DeleteReplica) -> Outcome:
        target = decision.target
        core = f"/api/v1/namespaces/{target.namespace}"
        crashpoint("job.before_delete")
        if decision.reason not in REPLACED:
            await self._end_service(core, decision)
        try:
            await self._cluster.delete(f"{core}/pods/{target.name}", uid=target.uid)
        except ConflictError:
            return NAMESAKE
        crashpoint("job.after_delete")
        return DONE

    async def _end_service(self, core: str, decision: DeleteReplica) -> None:
        slot = decision.target.name.removesuffix(f"-{decision.attempt}" if decision.attempt else "")
        path = f"{core}/services/{slot}"
        try:
            there = await self._cluster.get(path)
            if is_of(there, decision.job):
                await self._cluster.delete(path, uid=there["metadata"]["uid"])
        except (NotFoundError, ConflictError):
            return

    async def _claim(self, decision: AdoptReplica | ReleaseReplica) -> Outcome:
        """Write the owners of an object, on the condition of the read version."""
        target, owner = decision.target, decision.owner
        job_path = bodies.job_path(owner.kind, target.namespace, owner.name)
        path = bodies.claimed_path(target)
        for last in range(ATTEMPTS):
            # Another job may have the name by now: it is read again, and compared by uid.
            job = await self._cluster.get(job_path) if isinstance(decision, AdoptReplica) else None
            found = await self._cluster.get(path)
            if found["metadata"]["uid"] != target.uid:
                return NAMESAKE
            if job is None:
                owners, why = bodies.released(found, owner)
            elif job["metadata"]["uid"] != owner.uid:
                return "stale", "another job has this name"
            else:
                owners, why = bodies.adopted(found, job, owner)
            if owners is None:
                return ("stale", why) if why else DONE
            crashpoint("job.before_claim")
            try:
                await self._cluster.merge(path, bodies.owned(found, owners))
            except ConflictError:
                if last == ATTEMPTS - 1:
                    raise
                continue
            break
        crashpoint("job.after_claim")
        return DONE

    async def _report(self, decision: ReportJob) -> Outcome:
        for last in range(ATTEMPTS):
            found = await self._job(decision)
            if found is None:
                return NAMESAKE
            wanted = JobStatus(decision.conditions, decision.counts)
            there = bodies.job_in(decision.target.kind, found).status
            if is_same(there, wanted):
                return DONE
            if there.is_finished and not wanted.is_finished:
                return "stale", "the job ended already"
            crashpoint("job.before_report")
            try:
                await self._cluster.merge(
                    f"{self._path(decision)}/status", bodies.status(found, decision)
                )
            except ConflictError:
                if last == ATTEMPTS - 1:
                    raise
                continue
            await self._tell(decision, there, bodies.api_version(found))
            break
        crashpoint("job.after_report")
        return DONE

    async def _tell(self, decision: ReportJob, before: JobStatus, api_version: str) -> None:
        """Send Events. They are only for readers: the status is written even if they fail."""
        path = notices.path(decision.target.namespace)
        for body in notices.records(decision, before.conditions, api_version):
            try:
                await self._cluster.create(path, body)
            except _UNTOLD as error:
                if type(error) not in self._logged:
                    self._logged.add(type(error))
                    _log.warning("a change of a training job is not told as an Event: %s", error)

    async def _end(self, decision: Decision) -> Outcome:
        crashpoint("job.before_end")
        try:
            await self._cluster.delete(self._path(decision), uid=decision.target.uid)
        except ConflictError:
            return NAMESAKE
        crashpoint("job.after_end")
        return DONE

    async def _read(self, path: str) -> Json:
        """The object at ``path``, by one shared request of all concurrent readers."""
        reading = self._readings.get(path)
        if reading is None:
            reading = self._readings[path] = asyncio.ensure_future(self._cluster.get(path))
            reading.add_done_callback(lambda _: self._readings.pop(path, None))
        return await asyncio.shield(reading)

    async def _job(self, decision: Decision) -> Json | None:
        """The job as it is now; None where another one has its name."""
        found = await self._cluster.get(self._path(decision))
        return found if found["metadata"]["uid"] == decision.target.uid else None

    def _path(self, decision: Decision) -> str:
        target = decision.target
        return bodies.job_path(target.kind, target.namespace, target.name)

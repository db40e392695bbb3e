"""Makes, changes and deletes the PodGroups of training jobs. At most once for each decision.

- *Make*: its name is the job's, so two requests make one. If a foreign PodGroup has the name, the step is refused.
- *Change*: one merge patch on the condition of the uid and of the read version.
- *Delete*: on the condition of the uid.

Source: docs/jobs.md; docs/architecture.md (effectors).
"""

from __future__ import annotations

from typing import ClassVar

from bus.crashpoints import crashpoint
from bus.errors import ConflictError, NotFoundError, ObservationError
from bus.events.decisions import Decision, EndPodGroup, KeepPodGroup
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
from reactors.jobs.effectors import bodies, groups
from reactors.jobs.shape import Job


class PodGroupEffector:
    """Does the steps of PodGroups. Keeps :class:`reactors.engine.adapters.Effector`."""

    #: Its decisions.
    verbs: ClassVar[tuple[type[Decision], ...]] = (KeepPodGroup, EndPodGroup)

    def __init__(self, cluster: MakingClient) -> None:
        self._cluster = cluster

    async def act(self, decision: Decision) -> Outcome:
        """Do one step, unless it is done, or is about another object by now."""
        crashpoint("job.before_group")
        if isinstance(decision, KeepPodGroup):
            outcome = await self._keep(decision)
        else:
            outcome = await self._end(decision)
        crashpoint("job.after_group")
        return outcome

    async def _keep(self, decision: KeepPodGroup) -> Outcome:
        target = decision.target
        found = await self._cluster.get(bodies.job_path(target.kind, target.namespace, target.name))
        try:
            job = bodies.job_in(target.kind, found)
        except ObservationError as error:
            # Only its user can mend it: it rests like an object refused by the API server.
            return "refused", str(error)[:LONGEST]
        if job.uid != target.uid:
            return NAMESAKE
        if job.is_deleting or job.spec.suspend or job.status.is_finished:
            return "stale", "the job does not ask for it any more"
        for version in groups.VERSIONS[decision.api]:
            try:
                return await self._kept(decision, found, job, version)
            except NotFoundError:
                continue
        return "refused", f"the API server serves no {decision.api}"

    async def _kept(self, decision: KeepPodGroup, found: Json, job: Job, version: str) -> Outcome:
        collection = groups.collection(decision.api, version, job.namespace)
        if not decision.group:
            body = groups.group(found, job, decision, version)
            taken = await made(self._cluster, collection, body, job.uid, bodies.place_fault(body))
            return ("refused", f"the PodGroup {job.name} {taken}") if taken else DONE
        there = await self._cluster.get(f"{collection}/{job.name}")
        if there["metadata"]["uid"] != decision.group or not is_of(there, job.uid):
            return NAMESAKE
        await self._cluster.merge(f"{collection}/{job.name}", groups.change(there, decision))
        return DONE

    async def _end(self, decision: Decision) -> Outcome:
        target = decision.target
        for version in groups.VERSIONS[target.kind]:
            try:
                path = f"{groups.collection(target.kind, version, target.namespace)}/{target.name}"
                await self._cluster.delete(path, uid=target.uid)
            except NotFoundError:
                continue
            except ConflictError:
                return NAMESAKE
            return DONE
        return "gone", "not_found"

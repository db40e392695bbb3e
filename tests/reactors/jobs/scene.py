"""A cluster in memory with the training operator's objects, and a runner that decides beside it in shadow."""

import msgspec

from bus.events.decisions import CreateReplica, DeleteJob, DeleteReplica, ReportJob
from bus.events.pods import Owner
from bus.events.services import ServiceObserved
from bus.events.workloads import (
    ReplicaCounts,
    ReplicaSpec,
    Training,
    TrainingSpec,
    WorkloadCondition,
)
from reactors.jobs.reactor import reactor
from reactors.jobs.settings import JobsPolicy
from reactors.jobs.shape import INDEX, JOB, KINDS, OPERATOR, TYPE
from tests import factories as said
from tests.scenario import FAST, Scenario

UID = "j"
EXIT = {"replicas": {"Worker": ReplicaSpec(2, "ExitCode")}}


class Training4(Scenario):
    """One job ``ns/train``, its pods by name, and what its operator writes."""

    def __init__(self, kind="TFJob", **spec):
        super().__init__(reactor, {})
        self.spec = TrainingSpec(**({"replicas": {"Worker": ReplicaSpec(2)}} | spec))
        self.kind, self.status = kind, {}
        self.versions = 0

    async def begin(self, mode="shadow", **policy):
        await self.say(self.ticked())
        await self.set_policy(JobsPolicy(**{"pace": FAST} | policy), mode)

    @property
    def state(self):
        return self.runner.replica.states["jobs"]

    @property
    def agreed(self):
        return self.state.agreements.counts

    def version(self):
        self.versions += 1
        return self.versions

    async def see_job(self, *conditions, spec=None, counts=None, **fields):
        """The job's object as it is now: ``conditions`` by type, all True."""
        if conditions or counts is not None:
            fields["conditions"] = tuple(
                WorkloadCondition(one, "True", f"{self.kind}{one}") for one in conditions
            )
            fields["counts"] = {"Worker": ReplicaCounts(*counts or (0, 0, 0))}
        self.status |= fields
        self.spec = msgspec.structs.replace(self.spec, **(spec or {}))
        await self.say(
            said.workload_observed(
                UID, self.version(), self.at(), kind=self.kind, namespace="ns", name="train",
                training=Training(self.spec, **self.status),
            )
        )  # fmt: skip

    async def see_pod(self, index, phase="Pending", attempt=1, type="worker", **fields):
        """A pod of the job as it is now."""
        self.clock.after(1)
        await self.say(self._pod(said.pod_observed, index, phase, attempt, fields, type))

    async def list_services(self):
        """A complete list of services: they are followed from now on."""
        await self.say(*said.objects_listed("Service", [], self.version(), self.at()))

    async def see_service(self, index):
        """The service of a worker."""
        self.clock.after(1)
        fact = ServiceObserved(
            uid=f"s{index}", namespace="ns", name=f"train-worker-{index}",
            resource_version=str(self.version()), owner=Owner(self.kind, "train", UID), job="train",
            type="worker", index=str(index),
        )  # fmt: skip
        await self.say(said.said(fact, key=fact.uid, id=fact.uid, at=self.at()))

    async def lose_pod(self, index, attempt=1, phase="Failed", type="worker"):
        """A pod of the job is deleted."""
        self.clock.after(1)
        await self.say(self._pod(said.pod_vanished, index, phase, attempt, {}, type))

    async def lose_job(self):
        """The job is deleted, as its operator or its user does it."""
        self.clock.after(1)
        await self.say(
            said.workload_vanished(
                UID, self.version(), self.at(), kind=self.kind, namespace="ns", name="train"
            )
        )

    def _pod(self, make, index, phase, attempt, fields, type):
        fields.setdefault("namespace", "ns")
        labels = {OPERATOR: KINDS[self.kind].operator, JOB: "train", TYPE: type, INDEX: str(index)}
        return make(
            f"p{type}{index}-{attempt}", self.version(), self.at(), name=f"train-{type}-{index}",
            phase=phase, labels=labels, owner=Owner(self.kind, "train", UID), created=self.at(), **fields,
        )  # fmt: skip

    def created(self):
        return [one.replica for one in self.decisions(CreateReplica)]

    def deleted(self):
        return [(one.target.name, one.reason) for one in self.decisions(DeleteReplica)]

    def reported(self):
        return [one.reason for one in self.decisions(ReportJob)]

    def job_deletions(self):
        return self.decisions(DeleteJob)


async def begun(**spec):
    """A job whose two pods run."""
    scene = Training4(**spec)
    await scene.begin()
    await scene.see_job("Created")
    await scene.see_pod(0)
    await scene.see_pod(1)
    await scene.see_pod(0, "Running")
    await scene.see_pod(1, "Running")
    await scene.see_job("Created", "Running", counts=(2, 0, 0))
    return scene

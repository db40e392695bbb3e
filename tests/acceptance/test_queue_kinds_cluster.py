"""Every kind that can wait, on a real API server and through the real webhooks: held by its own field, started in its turn.

The kinds' controllers are played here by what a queue sees of them: their pods, and a status that says the end.
"""

import asyncio
from pathlib import Path

import pytest

from bus.events.admissions import AdmissionDecided, entries
from bus.kube.kinds import QUEUE_ANNOTATION, table
from bus.memory import MemoryTransport
from bus.sources.catalogue import TRAINING_RUNTIMES, WORKLOADS
from reactors.effectors.release import object_path
from tests.acceptance import queueing
from tests.acceptance.queueing import LABEL, queued
from tests.cluster import build
from tests.cluster.api import MERGE, ApiError
from tests.cluster.plane import ControlPlane

pytestmark = pytest.mark.kube

CRDS = Path(__file__).parents[1] / "cluster" / "crds" / "queued.yaml"
SOURCES = (
    *queueing.SOURCES,
    WORKLOADS["TFJob"],
    WORKLOADS["PyTorchJob"],
    WORKLOADS["RayJob"],
    WORKLOADS["JobSet"],
    WORKLOADS["TrainJob"],
    *TRAINING_RUNTIMES,
)
#: Pods of each workload; a pod has one core, which is all that the quota has room for.
PODS_EACH = 3
CHARGE = {"limits.cpu": 1000 * PODS_EACH, "requests.cpu": 1000 * PODS_EACH}


@pytest.fixture
def plane(tmp_path):
    """Its webhooks are for a whole cluster, so not the shared one."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    with ControlPlane(
        tmp_path / "plane", controllers=False, scheduler=False, simulator=False
    ) as running:
        running.kubectl("apply", "--server-side", "-f", str(CRDS))
        running.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        yield running


def template(cpu=1):
    container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": str(cpu)}}}
    return {"spec": {"containers": [container]}}


def replicas(number):
    return {"replicas": number, "template": template()}


def condition(name):
    return {"conditions": [{"type": name, "status": "True"}]}


#: Kind: what its user writes, of three pods; and the status that says its end.
WORKLOADS = {
    "TFJob": (
        table.TFJOB, {"tfReplicaSpecs": {"PS": replicas(1), "Worker": replicas(2)}},
        condition("Succeeded"),
    ),
    "PyTorchJob": (
        table.PYTORCHJOB,
        {
            "pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(2)},
            "runPolicy": {"cleanPodPolicy": "None"},
        },
        condition("Failed"),
    ),
    "RayJob": (
        table.RAYJOB,
        {
            "shutdownAfterJobFinishes": True,
            # No submitter: three pods, as of the others.
            "submissionMode": "HTTPMode",
            "rayClusterSpec": {
                "headGroupSpec": {"template": template()},
                "workerGroupSpecs": [{"replicas": 1, "numOfHosts": 2, "template": template()}],
            },
        },
        {"jobDeploymentStatus": "Complete"},
    ),
    "JobSet": (
        table.JOBSET,
        {
            "replicatedJobs": [
                {"name": "l", "replicas": 1, "template": {"spec": {"template": template()}}},
                {
                    "name": "w", "replicas": 1,
                    "template": {"spec": {"parallelism": 2, "completions": 2, "template": template()}},
                },
            ]
        },
        condition("Completed"),
    ),
    "TrainJob": (
        table.TRAINJOB, {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": PODS_EACH}},
        condition("Complete"),
    ),
}  # fmt: skip
#: Of the TrainJobs: one pod for each node that trains.
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": {"name": "torch"},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {"spec": {"replicatedJobs": [{
            "name": "node",
            "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"template": template()},
            },
        }]}},
    },
}  # fmt: skip


class Waiting:
    """Workloads of one kind in a quota of their own."""

    def __init__(self, site, kind, spec, ended):
        self.site, self.kind, self.spec, self.ended = site, kind, spec, ended
        self.quota = kind.resource

    def path(self, name=""):
        return object_path(self.kind, "default", name).rstrip("/")

    async def create(self, name, **spec):
        body = {
            "apiVersion": f"{self.kind.group}/{self.kind.versions[0]}", "kind": self.kind.kind,
            "metadata": {"name": name, "labels": {LABEL: self.quota}}, "spec": self.spec | spec,
        }  # fmt: skip
        return await self.site.request("POST", self.path(), body)

    async def get(self, name):
        return await self.site.request("GET", self.path(name))

    async def patch(self, name, body, part=""):
        path = self.path(name) + part
        return await self.site.request("PATCH", path, body, content_type=MERGE)

    async def end(self, name):
        await self.patch(name, {"status": self.ended}, "/status")

    def suspends(self, found):
        """What the kind's own field says."""
        value = found
        for step in self.kind.suspend.split("."):
            value = value[step]
        return value

    def flag(self, value):
        body = value
        for step in reversed(self.kind.suspend.split(".")):
            body = {step: body}
        return body

    async def runs(self, name):
        """Its field as it stands after it was started, by a patch that took the mark away."""
        async with asyncio.timeout(20):
            while self.suspends(found := await self.get(name)):
                await asyncio.sleep(0.05)
        assert QUEUE_ANNOTATION not in found["metadata"].get("annotations", {})
        return found

    async def waits(self, *names):
        """None of these starts, however long one looks."""
        await asyncio.sleep(0.7)
        for name in names:
            found = await self.get(name)
            assert self.suspends(found) is True
            assert found["metadata"]["annotations"][QUEUE_ANNOTATION] == self.quota

    def charges(self):
        """Name to what the quota charges for it of CPU. KubeRay's own containers ask for memory besides."""
        tree = self.site.admission.journals.tree(f"biz/{self.quota}")
        grants = tree.nodes[self.quota].grants.values()
        return {
            one.name: {key: n for key, n in one.charge.items() if key.endswith(".cpu")}
            for one in grants
            if one.charge
        }


def owned_by(found):
    owner = {key: found[key] for key in ("apiVersion", "kind")}
    owner |= {"name": found["metadata"]["name"], "uid": found["metadata"]["uid"]}
    return {"ownerReferences": [owner | {"controller": True}]}


async def make_pod(site, found, name, cpu, **labels):
    """A pod as the kind's controller makes it."""
    body = {"metadata": {"name": name, "labels": labels, **owned_by(found)}, **template(cpu)}
    await site.request("POST", "/api/v1/namespaces/default/pods", body)


async def make_job(site, found, name, quota):
    """A Job of one pod as a kind's controller makes it, which takes its labels over."""
    body = queueing.job(name, 1, quota)
    body["metadata"] |= owned_by(found)
    return await site.request("POST", queueing.PATH.format("default"), body)


async def test_each_kind_waits_by_its_own_field_and_starts_in_its_turn_by_one_patch(
    plane, tmp_path
):
    transport = MemoryTransport()
    async with queued(plane, tmp_path, transport, clients=8, sources=SOURCES) as site:
        await site.request("POST", TRAINING_RUNTIMES[1].path, RUNTIME)
        async with asyncio.timeout(20):
            while not site.admission.view.state.named(RUNTIME["kind"], "", "torch"):
                await asyncio.sleep(0.05)
        lines = [Waiting(site, *workload) for workload in WORKLOADS.values()]
        started = await asyncio.gather(*(turns(site, line) for line in lines))

        released = [fact.name for fact in decided(transport) if fact.reason == "released"]
        for names in started:
            mine = [one for one in released if one in names]
            patches = [one for one in site.cluster.patches if one in names]
            print(f"released {mine}, patches {patches}")
            assert list(names) == mine == patches
        assert len(released) == sum(map(len, started))


async def turns(site, line):
    """Four of a kind, room for one: names of those that started, in order."""
    await site.make_quota(line.quota, PODS_EACH, order="Strict")
    names = [f"{line.quota}-{letter}" for letter in "abcd"]
    for one in names:
        made = await line.create(one)
        assert line.suspends(made) is True
        assert made["metadata"]["annotations"][QUEUE_ANNOTATION] == line.quota
        # Two of one second are ordered by uid.
        await asyncio.sleep(1.1)
    first, second, third, last = names

    found = await line.runs(first)
    await line.waits(second, third, last)
    assert line.charges() == {first: CHARGE}
    # All that lives below an owner counts together: these and the Job below fill its charge.
    for number in range(PODS_EACH - 1):
        await make_pod(site, found, f"{first}-{number}", 1)
    with pytest.raises(ApiError, match="over-quota"):
        # Below a Job only its controller's pods are covered: anybody else's is charged in the quota that it names.
        await make_pod(site, found, f"{first}-more", 1 + PODS_EACH, **{LABEL: line.quota})

    if line.kind.kind in ("RayJob", "JobSet"):
        # The others make no Jobs: below them one is charged itself.
        made = await make_job(site, found, f"{first}-job", line.quota)
        assert not made["spec"].get("suspend")
        # Without it the Job would be held to make it still when it is deleted.
        await make_pod(site, made, f"{first}-job-0", 1)

    for body in ({}, {"metadata": {"annotations": {QUEUE_ANNOTATION: None}}}):
        with pytest.raises(ApiError, match="has a queue"):
            await line.patch(third, line.flag(False) | body)
    await site.request("DELETE", line.path(second))
    await line.end(first)
    # It has ended, and what it made lives on: that keeps its charge.
    await line.waits(third, last)
    for number in range(PODS_EACH - 1):
        await site.request("DELETE", f"/api/v1/namespaces/default/pods/{first}-{number}")
    if line.kind.kind in ("RayJob", "JobSet"):
        jobs = queueing.PATH.format("default")
        # Its default would orphan the pods, which takes a garbage collector.
        await site.request("DELETE", f"{jobs}/{first}-job?propagationPolicy=Background")
        # The pods' watch may be ahead of the Jobs': a pod that goes first may be made again.
        async with asyncio.timeout(20):
            while made["metadata"]["uid"] in site.admission.view.objects:
                await asyncio.sleep(0.05)
        await site.request("DELETE", f"/api/v1/namespaces/default/pods/{first}-job-0")
    await line.runs(third)
    await line.waits(last)
    assert line.charges() == {third: CHARGE}
    await line.end(third)
    await line.runs(last)
    return first, third, last


async def test_a_ray_job_that_cannot_be_suspended_is_admitted_or_refused_at_once(plane, tmp_path):
    async with queued(plane, tmp_path, MemoryTransport(), clients=4, sources=SOURCES) as site:
        line = Waiting(site, *WORKLOADS["RayJob"])
        line.quota = "keeping"
        await site.make_quota(line.quota, PODS_EACH, order="Strict")
        made = await line.create("keeping", shutdownAfterJobFinishes=False)
        assert "suspend" not in made["spec"]
        assert line.charges() == {"keeping": CHARGE}

        with pytest.raises(ApiError, match="over-quota"):
            await line.create("more", shutdownAfterJobFinishes=False)
        assert line.suspends(await line.create("waits")) is True


def decided(transport):
    said = [one for event in transport.events for one in entries(event)]
    return [AdmissionDecided.read(one) for one in said if one.type == AdmissionDecided.wire_type]

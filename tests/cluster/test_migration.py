"""A PodMigrationJob moves a pod of a Deployment: real API server and controllers, simulated nodes, and Bursar."""

import asyncio

import pytest

from bus.events.decisions import Evict
from bus.events.pods import ReservationObserved
from bus.memory import MemoryTransport
from bus.sources.catalogue import MIGRATIONS, RESERVATIONS, WORKLOADS
from deploy.runtime.reactors import acting
from reactors.migration.effectors.bodies import API
from reactors.migration.effectors.bodies import MIGRATIONS as JOBS
from reactors.migration.effectors.bodies import RESERVATIONS as ROOMS
from reactors.migration.reactor import reactor as migration
from reactors.migration.settings import MigrationPolicy
from reactors.scheduling.reactor import reactor as scheduling
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests.acceptance import binding
from tests.acceptance.binding import Scene
from tests.cluster import build
from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import FOLDER

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(600)]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SOURCES = (*binding.SOURCES, WORKLOADS["Deployment"], WORKLOADS["ReplicaSet"], RESERVATIONS, MIGRATIONS)  # fmt: skip
POLICY = SchedulingPolicy(profiles=(SchedulingProfile(weights={"Reservation": 10}),))
LONGEST_SECONDS = 150


@pytest.fixture
def plane(tmp_path):
    """Controllers and simulated kubelets; Bursar alone places pods."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    with ControlPlane(tmp_path / "plane", scheduler=False) as running:
        running.kubectl("apply", "-f", str(FOLDER / "koordinator" / "crds.yaml"))
        running.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        running.create_nodes(3, gpus=0, cpu="8", memory="32Gi")
        yield running


def deployment(name):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    labels = {"app": name}
    spec = {"schedulerName": "bursar", "containers": [container]}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 4, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }  # fmt: skip


async def until(find):
    """What is found, as soon as it is."""
    async with asyncio.timeout(LONGEST_SECONDS):
        while not (found := await find()):
            await asyncio.sleep(0.2)
    return found


class Moves(Scene):
    """Eight pods of two Deployments."""

    async def ready(self):
        """All pods by uid, once each of the eight is Ready."""
        pods = [one for one in await self.pods() if not one["metadata"].get("deletionTimestamp")]
        is_ready = [
            any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions", ()))
            for one in pods
        ]  # fmt: skip
        return {one["metadata"]["uid"]: one for one in pods} if is_ready == [True] * 8 else None

    async def ended(self):
        """The job, once it has ended."""
        found = await self.request("GET", f"{JOBS}/move")
        return found if found.get("status", {}).get("phase") in ("Succeeded", "Failed") else None

    async def move(self):
        """The pods before, the pod that moves, its job at the end, and the pods after."""
        for name in ("web", "other"):
            await self.request("POST", DEPLOYMENTS, deployment(name))
        before = await until(self.ready)
        moved = next(one for one in before.values() if one["metadata"]["labels"]["app"] == "web")
        spec = {"podRef": {"namespace": "default", "name": moved["metadata"]["name"]}, "ttl": "5m"}
        job = {"apiVersion": API, "kind": "PodMigrationJob", "metadata": {"name": "move"}, "spec": spec}  # fmt: skip
        await self.request("POST", JOBS, job)
        job = await until(self.ended)
        return before, moved, job, await until(self.ready)


def rooms(events):
    """Phase and node of the reservation, as they were observed, by sequence."""
    observed = (one for one in events if one.type == ReservationObserved.wire_type)
    facts = ((one.sequence, ReservationObserved.read(one)) for one in observed)
    return [(sequence, fact.phase, fact.node) for sequence, fact in facts]


async def test_a_pod_moves_to_the_room_that_was_reserved_for_it_and_bystanders_stay(plane):
    scene, transport = Moves(plane), MemoryTransport()
    wanted = {"scheduling": ("on", POLICY), "migration": ("on", MigrationPolicy())}
    reactors = (scheduling, migration)
    async with binding.watched(plane, transport, sources=SOURCES) as cluster:
        async with acting(transport, cluster, wanted, name="c1", reactors=reactors):
            before, moved, job, after = await scene.move()
    status, name = job["status"], moved["metadata"]["name"]
    room = await scene.request("GET", f"{ROOMS}/{job['metadata']['uid']}")
    (new,) = after.keys() - before.keys()
    evictions = [one for one in transport.events if one.type == Evict.wire_type]
    known = [one for one in rooms(transport.events) if one[0] < evictions[0].sequence][-1]

    assert (status["phase"], status["status"], status.get("reason")) == (
        "Succeeded",
        "Complete",
        "",
    )
    assert [Evict.read(one).target.name for one in evictions] == [name]
    assert known[1] == "Available" and known[2] not in ("", moved["spec"]["nodeName"])
    assert after[new]["spec"]["nodeName"] == status["nodeName"] == known[2]
    assert (status["podRef"]["uid"], room["status"]["phase"]) == (new, "Succeeded")
    assert before.keys() - after.keys() == {moved["metadata"]["uid"]}
    header, row = plane.kubectl("get", "podmigrationjobs", "move").splitlines()
    assert {"Succeeded", "Complete", name, after[new]["metadata"]["name"]} <= set(row.split()), (
        header
    )

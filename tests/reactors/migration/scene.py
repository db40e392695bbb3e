"""An API server in memory with a Deployment, a scheduler that a test plays, and Bursar that follows PodMigrationJobs."""

import msgspec

from bus.clock import SECOND_US
from bus.errors import ConflictError
from bus.events.decisions import Evict
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources.catalogue import MIGRATIONS, PODS, RESERVATIONS, WORKLOADS
from projections.cluster.migrations import Migration
from reactors.effectors.evict import EvictEffector
from reactors.migration.effectors.bodies import API
from reactors.migration.effectors.bodies import MIGRATIONS as JOBS
from reactors.migration.effectors.bodies import RESERVATIONS as ROOMS
from reactors.migration.effectors.migrate import MigrationEffector
from reactors.migration.reactor import reactor
from reactors.migration.settings import MigrationPace, MigrationPolicy
from tests.factories import CLUSTER, objects_listed, pods_listed
from tests.reactors.jobs.running import ApiServer, merged
from tests.scenario import Scenario

APPS, CORE = "/apis/apps/v1/namespaces/ns", "/api/v1/namespaces/ns"
SOURCES = {
    "podmigrationjobs": MIGRATIONS, "reservations": RESERVATIONS, "pods": PODS,
    "deployments": WORKLOADS["Deployment"], "replicasets": WORKLOADS["ReplicaSet"],
    "daemonsets": WORKLOADS["DaemonSet"], "statefulsets": WORKLOADS["StatefulSet"],
}  # fmt: skip

#: Limits that no test meets by accident.
FAST = MigrationPace(per_minute=1000, per_namespace=1000, per_node=1000)


class Server(ApiServer):
    """``evictions``: each as (pod, phase and node of the reservations at that moment). ``keeps``: pods that a budget protects."""

    def __init__(self, clock_s):
        super().__init__(clock_s)
        self.evictions, self.keeps = [], {}

    async def merge(self, path, body):
        part = path.removesuffix("/status")
        found = await self.get(part)
        for name, value in body["metadata"].items():
            if found["metadata"][name] != value:
                raise ConflictError(reason="Conflict", message=path)
        self.put(part, merged(found, {k: v for k, v in body.items() if k != "metadata"}))

    async def create(self, path, body):
        if self.refuses is not None:
            raise self.refuses
        await super().create(path, body)
        return self.objects[f"{path}/{body['metadata']['name']}"]

    async def evict(self, namespace, pod, *, uid):
        if pod in self.keeps:
            raise self.keeps[pod]
        found = await self.get(f"{CORE}/pods/{pod}")
        assert found["metadata"]["uid"] == uid
        rooms = [
            (one.get("status", {}).get("phase"), one.get("status", {}).get("nodeName"))
            for one in self.of("reservations").values()
        ]
        self.evictions.append((pod, rooms))
        self.drop(f"{CORE}/pods/{pod}")
        return {}


class Moving(Scenario):
    """Pods run on ``n1``."""

    def __init__(self):
        self.api = Server(lambda: self.at())
        self.migrations = MigrationEffector(self.api, self)
        effectors = {verb.wire_type: self.migrations for verb in self.migrations.verbs}
        super().__init__(reactor, effectors | {Evict.wire_type: EvictEffector(self.api)})

    def now_us(self):
        return self.clock.now_us()

    async def begin(self, mode="on", **policy):
        await self.say(self.ticked())
        await self.set_policy(MigrationPolicy(**{"pace": FAST} | policy), mode)
        await self.say(*pods_listed([], next(self.api._versions), self.at()))
        await self.list_jobs()

    async def list_jobs(self):
        """The source of PodMigrationJobs publishes a complete list."""
        uids = [one["metadata"]["uid"] for one in self.api.of("podmigrationjobs").values()]
        await self.say(*objects_listed(Migration.kind, uids, next(self.api._versions), self.at()))

    def owned(self, kind, name, owner, replicas):
        references = [self.reference(owner)] if owner else []
        metadata = {"name": name, "namespace": "ns", "ownerReferences": references}
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
        path = f"{APPS}/{kind.lower()}s/{name}"
        self.api.put(
            path, {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
        )
        return self.api.objects[path]

    def reference(self, owner):
        identity = {key: owner["metadata"][key] for key in ("name", "uid")}
        api = {key: owner[key] for key in ("apiVersion", "kind")}
        return {**api, **identity, "controller": True}

    def deployment(self, name="web", replicas=4, **pod):
        """A Deployment whose pods all run; its ReplicaSet."""
        made = self.owned("Deployment", name, None, replicas)
        below = self.owned("ReplicaSet", f"{name}-1", made, replicas)
        for number in range(replicas):
            self.pod(f"{name}-{number}", below, **pod)
        return below

    def pod(self, name, owner=None, node="n1", *, ready=True, annotations=None, **spec):
        metadata = {"name": name, "namespace": "ns", "annotations": annotations or {}}
        if owner is not None:
            metadata["ownerReferences"] = [self.reference(owner)]
        container = {
            "name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}},
            "env": [{"name": "TOKEN", "value": "secret"}], "command": ["serve"],
        }  # fmt: skip
        status = {"phase": "Running" if node else "Pending", "conditions": []}
        if node:
            status["conditions"] = [{"type": "Ready", "status": str(ready)}]
        body = {
            "metadata": metadata, "status": status,
            "spec": {"schedulerName": "bursar", "nodeName": node, "containers": [container], **spec},
        }  # fmt: skip
        self.api.put(f"{CORE}/pods/{name}", body)
        return self.api.objects[f"{CORE}/pods/{name}"]

    def migrate(self, pod, name=None, **spec):
        """An operator makes a PodMigrationJob."""
        name = name or f"move-{pod}"
        spec = {"podRef": {"namespace": "ns", "name": pod}, "ttl": "5m"} | spec
        body = {
            "apiVersion": API,
            "kind": "PodMigrationJob",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.api.put(f"{JOBS}/{name}", body)
        return name

    def job(self, name):
        return self.api.objects[f"{JOBS}/{name}"]

    def status(self, name):
        return self.job(name).get("status", {})

    def phase(self, name):
        found = self.status(name)
        return found.get("phase", ""), found.get("reason", "")

    def room(self, name):
        """The reservation that a job names, by its path; None = it is gone."""
        return self.api.objects.get(self.room_path(name))

    def room_path(self, name):
        return f"{ROOMS}/{self.job(name)['spec']['reservationOptions']['reservationRef']['name']}"

    def place(self, name, node="n2", phase="Available", conditions=(), owners=()):
        """The scheduler writes the status of a job's reservation."""
        written = {
            "phase": phase, "nodeName": node, "conditions": list(conditions),
            "currentOwners": [{"uid": one["metadata"]["uid"]} for one in owners],
        }  # fmt: skip
        self.api.put(self.room_path(name), self.room(name) | {"status": written})

    async def watch(self):
        """The sources publish the changes."""
        while self.api.changes:
            changes, self.api.changes = self.api.changes, []
            for change, path, body in changes:
                source = SOURCES[path.split("/")[-2]]
                record = Record(
                    change, msgspec.json.encode(body), self.clock.us, CLUSTER, "kube/test"
                )
                await self.say(source.translate(record, LabelPolicy()))

    async def turn(self, after=10):
        """Changes are published, time goes on, decisions are done, and that is published."""
        await self.watch()
        await self.tick(after)
        for _ in range(4):
            await self.work()
            await self.watch()

    async def turns(self, count, after=10):
        for _ in range(count):
            await self.turn(after)


EXPIRED = {"type": "Ready", "status": "False", "reason": "Expired"}
__all__ = ["EXPIRED", "ROOMS", "SECOND_US", "Moving"]

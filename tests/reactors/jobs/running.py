"""An API server in memory with training jobs, kubelets that follow a script, and Bursar that runs the jobs."""

import itertools
import json
from collections import Counter

import msgspec

from bus import crashpoints
from bus.errors import ConflictError, NotFoundError
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources.catalogue import POD_GROUPS, PODS, SERVICES, WORKLOADS
from reactors.jobs.effectors.keep import PodGroupEffector
from reactors.jobs.effectors.run import JobEffector
from reactors.jobs.reactor import reactor
from reactors.jobs.settings import JobsPolicy, JobsSettings
from reactors.jobs.shape import INDEX, TYPE
from tests.factories import CLUSTER, objects_listed, pods_listed, stamp
from tests.scenario import FAST, Scenario

SPECS = {
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
    "JAXJob": ("jaxReplicaSpecs", "jax"),
}
FOLDERS = {kind: f"{kind.lower()}s" for kind in SPECS}
CORE, GROUP = "/api/v1/namespaces/ns", "/apis/kubeflow.org/v1/namespaces/ns"


def job(name="train", kind="TFJob", replicas=None, marked=True, **policy):
    """``replicas``: by type, how many and their restart policy."""
    specs, container = SPECS[kind]
    run = {"managedBy": "bursar.io/jobs"} if marked else {}
    requests = {"resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [{"name": container, "image": "x", **requests}]}}
    types = {
        type: {"replicas": count, "restartPolicy": restarts, "template": template}
        for type, (count, restarts) in (replicas or {"Worker": (2, "ExitCode")}).items()
    }
    return {
        "apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"},
        "spec": {"runPolicy": run | policy, specs: types},
    }  # fmt: skip


class ApiServer:
    """Objects by path. ``changes``: what a watch says, until it is read. ``refuses`` raises before a pod is made.

    ``lacks``: how paths of APIs begin that it does not serve.
    """

    def __init__(self, clock_s):
        self.clock_s = clock_s
        self.objects, self.changes = {}, []
        self.made, self.writes = Counter(), Counter()
        self.refuses, self.lacks = None, ()
        self._versions = itertools.count(1)

    def of(self, part):
        """The objects of one collection, by name."""
        found = ((path, one) for path, one in self.objects.items() if f"/{part}/" in path)
        return {path.rpartition("/")[2]: one for path, one in found}

    async def get(self, path):
        if path not in self.objects:
            raise NotFoundError(message=path)
        return json.loads(json.dumps(self.objects[path]))

    async def create(self, path, body):
        name = body["metadata"]["name"]
        part = path.rpartition("/")[2]
        if any(path.startswith(one) for one in self.lacks):
            raise NotFoundError(message=path)
        if f"{path}/{name}" in self.objects:
            raise ConflictError(reason="AlreadyExists", message=name)
        if self.refuses is not None and part == "pods":
            raise self.refuses
        self.writes[part] += 1
        self.made[part, name] += 1
        self.put(f"{path}/{name}", body)
        return body

    async def merge(self, path, body):
        part = (
            "status"
            if path.endswith("/status")
            else "podgroups"
            if "/podgroups/" in path
            else "owners"
        )
        path = path.removesuffix("/status")
        found = await self.get(path)
        if any(
            found["metadata"][name] != body["metadata"][name] for name in ("uid", "resourceVersion")
        ):
            raise ConflictError(reason="Conflict", message=path)
        self.writes[part] += 1
        if part == "owners":
            self.put(path, found | {"metadata": found["metadata"] | body["metadata"]})
            return
        if part == "podgroups":
            self.put(path, found | {"spec": found["spec"] | body["spec"]})
            return
        self.put(path, found | {"status": merged(found.get("status", {}), body["status"])})

    async def delete(self, path, *, uid):
        found = await self.get(path)
        if found["metadata"]["uid"] != uid:
            raise ConflictError(reason="Conflict", message=path)
        self.writes["delete"] += 1
        self.drop(path)
        return found

    def put(self, path, body):
        """Store an object, as its user or a kubelet does."""
        before = self.objects.get(path)
        body = json.loads(json.dumps(body))
        version = str(next(self._versions))
        known = before["metadata"] if before else {"uid": f"{version:0>36}"}
        created = known.get("creationTimestamp", stamp(self.clock_s()))
        body["metadata"] |= {
            "uid": known["uid"], "resourceVersion": version, "creationTimestamp": created,
        }  # fmt: skip
        self.objects[path] = body
        self.changes.append(("MODIFIED" if before else "ADDED", path, body))

    def drop(self, path):
        """Delete an object, and all that it owns."""
        gone = self.objects.pop(path)
        gone["metadata"]["resourceVersion"] = str(next(self._versions))
        self.changes.append(("DELETED", path, gone))
        for other, one in list(self.objects.items()):
            owners = one["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self.drop(other)


def merged(old, patch):
    """JSON merge patch (RFC 7386)."""
    new = dict(old)
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            inner = isinstance(value, dict)
            new[name] = merged(new.get(name) or {}, value) if inner else value
    return new


class Running(Scenario):
    """``ends``: by slot and attempt (``worker-1-1``), the exit code of its container; others end with 0 once ``is_over``."""

    def __init__(self, ends=None, **kinds):
        self.api = ApiServer(lambda: self.at())
        both = JobEffector(self.api), PodGroupEffector(self.api)
        super().__init__(reactor, {verb.wire_type: one for one in both for verb in one.verbs})
        self.ends, self.is_over = ends or {}, False
        self.kinds = kinds

    async def begin(self, mode="on", *, sees_services=True, **policy):
        await self.say(self.ticked())
        self.sees_services = sees_services
        if sees_services:
            await self.say(*objects_listed("Service", [], next(self.api._versions), self.at()))
        section = JobsSettings(mode=mode, policy=JobsPolicy(**{"pace": FAST} | policy))
        await self.set_policy(section.wanted({})[1], mode)

    async def submit(self, body):
        """A user makes a job."""
        self.clock.after(1)
        self.api.put(f"{GROUP}/{FOLDERS[body['kind']]}/{body['metadata']['name']}", body)
        await self.watch()

    async def watch(self):
        """The sources say what changed."""
        changes, self.api.changes = self.api.changes, []
        for change, path, body in changes:
            source = self._source(path)
            if source is not None:
                record = Record(
                    change, msgspec.json.encode(body), self.clock.now_us(), CLUSTER, "kube/test"
                )
                await self.say(source.translate(record, LabelPolicy()))

    def _source(self, path):
        part = path.split("/")[-2]
        if part == "pods":
            return PODS
        if part == "podgroups":
            return next(
                one for one in POD_GROUPS if path.startswith(one.path.removesuffix("podgroups"))
            )
        if part == "services":
            return SERVICES if self.sees_services else None
        return next((one for one in WORKLOADS.values() if one.name == part), None)

    async def relist(self):
        """A complete list of pods; what a watch would have said is lost."""
        self.clock.after(1)
        there = self.api.of("pods")
        self.api.changes = [("LISTED", f"{CORE}/pods/{name}", one) for name, one in there.items()]
        await self.watch()
        uids = [one["metadata"]["uid"] for one in there.values()]
        await self.say(*pods_listed(uids, next(self.api._versions), self.at()))

    async def relist_services(self):
        """A complete list of services; what a watch would have said is lost."""
        self.clock.after(1)
        there = self.api.of("services")
        self.api.changes = [
            ("LISTED", f"{CORE}/services/{name}", one) for name, one in there.items()
        ]
        await self.watch()
        uids = [one["metadata"]["uid"] for one in there.values()]
        await self.say(*objects_listed("Service", uids, next(self.api._versions), self.at()))

    def live(self):
        """Pods of jobs by slot that have not ended."""
        found = Counter()
        for one in self.api.of("pods").values():
            is_over = one.get("status", {}).get("phase") in ("Succeeded", "Failed")
            owners = one["metadata"].get("ownerReferences", ())
            if not is_over and any(owner["kind"] in SPECS for owner in owners):
                labels = one["metadata"]["labels"]
                found[labels[TYPE], labels[INDEX]] += 1
        return found

    def kubelets(self):
        """Each pod goes one phase on."""
        for name, one in self.api.of("pods").items():
            path = f"{CORE}/pods/{name}"
            phase = one.get("status", {}).get("phase", "Pending")
            if phase == "Pending" and "status" not in one:
                status = {"phase": "Running", "startTime": stamp(self.at())}
                spec = one["spec"] | {"nodeName": "n"}
                self.api.put(path, one | {"spec": spec, "status": status})
            elif phase == "Running":
                short = name.partition("-")[2]
                code = self.ends.get(short, 0 if self.is_over else None)
                if code is not None:
                    self.api.put(path, one | {"status": _ended(one, code)})

    async def turn(self):
        """What was decided is done and seen, kubelets go on, and time does."""
        await self.work()
        await self.watch()
        assert not self.live() or max(self.live().values()) == 1, "two pods in one place"
        self.kubelets()
        await self.watch()
        await self.tick()

    async def turns(self, count):
        for _ in range(count):
            await self.turn()

    def conditions(self, name="train", kind="TFJob"):
        found = self.api.objects[f"{GROUP}/{FOLDERS[kind]}/{name}"].get("status", {})
        return [one["type"] for one in found.get("conditions", ()) if one["status"] == "True"]


def _ended(pod, code):
    name = pod["spec"]["containers"][0]["name"]
    state = {"terminated": {"exitCode": code}}
    return pod["status"] | {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": name, "restartCount": 0, "state": state}],
    }


class Killed(BaseException):
    """Ends a process as a signal does: nothing behind it runs."""


async def killed(world, label, times, turns):
    """Turns, with a death at the ``times``-th sight of a label; a successor goes on from the history alone. Whether it died."""
    left, died = [times], False

    def hook(reached):
        left[0] -= reached == label
        if reached == label and not left[0]:
            raise Killed(label)

    crashpoints.install(hook)
    try:
        for turn in range(turns):
            try:
                await world.turn()
            except Killed:
                died = True
                world.runner = world.new_runner(world.reactor)
                await world.watch()
                await world.read()
            world.is_over |= turn == turns // 2
    finally:
        crashpoints.install(None)
    return died

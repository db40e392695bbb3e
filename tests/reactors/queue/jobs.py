"""Jobs in a cluster in memory that asks the product's own webhooks, as an API server does: mutate, decide, store, say.

Its clock stands until it is moved; what runs ends when the test ends it.
"""

import copy
import itertools

import msgspec

from bus.clock import SECOND_US, format_stamp
from bus.errors import ConflictError, NotFoundError, PermissionDeniedError, RequestRefusedError
from bus.events.pods import Owner, PodObserved
from bus.events.priorities import PriorityClassObserved
from bus.events.queues import QueueOrdered
from bus.events.quotas import Queue
from bus.events.workloads import WorkloadVanished
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.memory import MemoryTransport
from bus.sources.catalogue import WORKLOADS
from reactors.admitting import following
from reactors.queue.hold import Hold
from reactors.webhook.review import Review
from tests.reactors.cluster import Cluster

LABEL = "biz.group.resource.quota"


def manifest(
    name, cpu, *, pods=1, quota="team", deadline=None, priority="", suspend=None, **metadata
):
    """A Job of one pod, or more, each of which asks for ``cpu`` cores."""
    container = {"name": "main", "resources": {"limits": {"cpu": str(cpu)}}}
    template = {"spec": {"containers": [container]}}
    if priority:
        template["spec"]["priorityClassName"] = priority
    spec = {"template": template}
    spec |= {"activeDeadlineSeconds": deadline} if deadline is not None else {}
    spec |= {"suspend": suspend} if suspend is not None else {}
    spec |= {"parallelism": pods} if pods > 1 else {}
    labels = {LABEL: quota} if quota else {}
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": labels, **metadata},
        "spec": spec,
    }


def patched(object, operations):
    """``object`` after a JSON Patch. Raises RequestRefusedError, as the API server does."""
    object = copy.deepcopy(object)
    for one in operations:
        *way, last = [s.replace("~1", "/").replace("~0", "~") for s in one["path"].split("/")[1:]]
        inner = object
        for step in way:
            if isinstance(inner, list):
                inner = inner[int(step)]
                continue
            if step not in inner:
                raise RequestRefusedError(status=422, message=one["path"])
            inner = inner[step]
        if one["op"] == "add":
            inner[last] = one["value"]
        elif last not in inner or (one["op"] == "test" and inner[last] != one["value"]):
            raise RequestRefusedError(status=422, message=one["path"])
        elif one["op"] == "remove":
            del inner[last]
        elif one["op"] == "replace":
            inner[last] = one["value"]
    return object


class Jobs(Cluster):
    """A cluster of Jobs with one keeper, which works the queues off."""

    def __init__(self, transport=None, before=None):
        super().__init__(transport or MemoryTransport())
        #: By name. ``before``: a cluster whose keeper has died.
        self.objects = before.objects if before else {}
        #: (name, seconds) of every start, in order.
        self.starts = before.starts if before else []
        #: What the API server refuses next, and what it says after the write was done.
        self.fails = []
        self.patches = 0
        if before is not None:
            self.clock, self._versions, self._reviews = (
                before.clock,
                before._versions,
                before._reviews,
            )
        self._uids = before._uids if before else itertools.count(1)

    async def __aenter__(self):
        self._following = following(
            self.transport, self.clock, cluster="c1", source="webhook/1", keeps=True, starts=self
        )
        self.admission = await self._following.__aenter__()
        self.hold = Hold(self.admission.journals, self.admission.view)
        return self

    async def see_team(
        self, cpu, *, order="BackFill", delay=0, name="team", hold=True, gang=False, **fields
    ):
        queue = Queue(hold, order, delay, gang)
        await self.see_quota(name, {"limits.cpu": cpu * 1000}, queue=queue, **fields)

    async def see_class(self, name, value, *, is_default=False):
        version = str(next(self._versions))
        fact = PriorityClassObserved(
            uid=name, name=name, resource_version=version, value=value, is_default=is_default
        )
        await self.say(fact, name)

    async def order(self, uid, action, priority=None, reason=""):
        fact = QueueOrdered(uid=uid, action=action, priority=priority, author="ada", reason=reason)
        await self.say(fact, uid)

    async def create(self, name, cpu=1, **fields):
        """Create a Job; the answer of the webhook that decides."""
        object = manifest(name, cpu, **fields)
        answer = await self.hold(self._review(object, None, "CREATE"))
        if answer.patch:
            object = patched(object, msgspec.json.decode(answer.patch))
        stamp = format_stamp(self.clock.us // SECOND_US * SECOND_US)
        object["metadata"] |= {"uid": f"u{next(self._uids):04}", "creationTimestamp": stamp}
        answer = await self.admission.handler(self._review(object, None, "CREATE"))
        if answer.allowed:
            await self._store(object)
        return answer

    async def patch(self, path, operations):
        """JSON Patch of a Job, reviewed as an update. Part of the API server."""
        self.patches += 1
        name = path.rpartition("/")[2]
        if self.fails:
            raise self.fails.pop()
        if name not in self.objects:
            raise NotFoundError(message=name)
        return await self.update(name, patched(self.objects[name], operations))

    async def merge(self, path, body):
        """JSON merge patch of a Job, whose uid is a precondition. Part of the API server."""
        name = path.rpartition("/")[2]
        if name not in self.objects or self.uid(name) != body["metadata"]["uid"]:
            raise ConflictError(reason="Conflict", message=name)
        object = copy.deepcopy(self.objects[name])
        object["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
        object["spec"].update(body["spec"])
        return await self.update(name, object)

    async def update(self, name, object):
        """Replace a Job; raises PermissionDeniedError where the webhook refuses."""
        answer = await self.admission.handler(self._review(object, self.objects[name], "UPDATE"))
        if not answer.allowed:
            raise PermissionDeniedError(permission="patch jobs.batch", message=answer.message)
        if self.is_suspended(name) and not object["spec"].get("suspend"):
            self.starts.append((name, self.clock.us // SECOND_US))
        await self._store(object)
        return object

    async def delete(self, name):
        """It ends, or its user deletes it."""
        uid = self.objects.pop(name)["metadata"]["uid"]
        fact = WorkloadVanished(
            uid=uid, kind="Job", namespace="ns", name=name,
            resource_version=str(next(self._versions)),
        )  # fmt: skip
        await self.say(fact, uid)

    async def bind(self, name, phase=""):
        """The first pod of a Job finds its node, or is in this phase there."""
        fact = PodObserved(
            uid=f"pod-{name}", namespace="ns", name=f"{name}-0", node="n",
            resource_version=str(next(self._versions)), owner=Owner("Job", name, self.uid(name)),
            phase=phase,
        )  # fmt: skip
        await self.say(fact, fact.uid)

    async def _store(self, object):
        version = str(next(self._versions))
        object["metadata"]["resourceVersion"] = version
        self.objects[object["metadata"]["name"]] = object
        record = Record("MODIFIED", msgspec.json.encode(object), self.clock.us, "c1", "test")
        await self.transport.publish([WORKLOADS["Job"].translate(record, LabelPolicy())])

    def is_suspended(self, name):
        return bool(self.objects[name]["spec"].get("suspend"))

    def running(self):
        """Names of what runs."""
        return sorted(name for name in self.objects if not self.is_suspended(name))

    def uid(self, name):
        return self.objects[name]["metadata"]["uid"]

    def released(self):
        """Names in the order of their release."""
        return [d["name"] for d in self.said("decided") if d["reason"] == "released"]

    def _review(self, object, old, operation):
        return Review(
            uid=f"review-{next(self._reviews)}", operation=operation, group="batch", version="v1",
            resource="jobs", subresource="", kind="Job", namespace="ns",
            name=object["metadata"]["name"], user="amy", groups=(), dry_run=False, object=object,
            old_object=old, options=None,
        )  # fmt: skip

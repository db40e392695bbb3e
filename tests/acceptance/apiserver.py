"""A cluster in this process: an API server that asks webhooks, and the source that says what it stores.

As the real one it asks before it writes, writes what was allowed at once or up to its request deadline later or
never, meets conflicts and then asks again, and forgets a request at its deadline. It keeps a log of all it ever
held, in its own order.
"""

import asyncio
import random
from dataclasses import dataclass, field, replace

import msgspec

from bus.clock import SECOND_US
from bus.errors import RetryableError
from bus.events.observations import ObjectsListed
from bus.events.quotas import QuotaObserved
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.kube.watch.lists import listed
from tests.acceptance.webhook_process import CLUSTER

KIND = "Deployment"
QUOTA = "biz.group.resource.quota"
TYPE = f"{QUOTA}/cpu-type"
GIB = 1024**3

#: What an API server gives a request, as its own flag --request-timeout says.
DEADLINE_US = 60 * SECOND_US


@dataclass(frozen=True)
class Stored:
    """A Deployment: `replicas` pods of `cpu` cores and `gib` GiB."""

    uid: str
    quota: str
    replicas: int
    cpu: int
    gib: int
    model: str = ""
    version: int = 0

    @property
    def amounts(self):
        """What it holds of the keys that quotas limit here."""
        cpu = 1000 * self.cpu * self.replicas
        found = {"limits.cpu": cpu, "requests.memory": GIB * self.gib * self.replicas}
        found |= {"limits.cpu.A4": cpu} if self.model else {}
        return found if self.replicas else {}

    @property
    def labels(self):
        return {QUOTA: self.quota} | ({TYPE: self.model} if self.model else {})

    def manifest(self):
        amounts = {"cpu": str(self.cpu), "memory": f"{self.gib}Gi"}
        container = {"name": "main", "resources": {"limits": amounts, "requests": amounts}}
        metadata = {"name": self.uid, "namespace": "ns", "uid": self.uid, "labels": self.labels}
        template = {"metadata": {"labels": {"app": self.uid}}, "spec": {"containers": [container]}}
        spec = {"replicas": self.replicas, "template": template}
        return {"apiVersion": "apps/v1", "kind": KIND, "metadata": metadata, "spec": spec}

    def scale(self):
        metadata = {"name": self.uid, "namespace": "ns", "uid": self.uid}
        return {"metadata": metadata, "spec": {"replicas": self.replicas}}

    def observed(self):
        one = {
            f"{side}.{name}": amount
            for side in ("limits", "requests")
            for name, amount in (("cpu", 1000 * self.cpu), ("memory", GIB * self.gib))
        }
        return WorkloadObserved(
            uid=self.uid, kind=KIND, namespace="ns", name=self.uid,
            resource_version=str(self.version), labels=self.labels,
            demand={key: n * self.replicas for key, n in one.items()} if self.replicas else {},
            pods=self.replicas, per_replica=one, replicas=self.replicas,
        )  # fmt: skip


def review(uid, operation, item, old=None, *, subresource="", dry_run=False):
    """The body of a review of a Deployment, or of its scale."""
    kind = {"group": "apps", "version": "v1", "kind": KIND}
    show = Stored.scale if subresource else Stored.manifest
    request = {
        "uid": uid, "kind": kind, "operation": operation, "name": (item or old).uid,
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "subResource": subresource, "namespace": "ns", "userInfo": {"username": "ada"},
        "object": show(item) if item else None, "oldObject": show(old) if old else None,
        "dryRun": dry_run,
    }  # fmt: skip
    whole = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return msgspec.json.encode(whole)


@dataclass
class ApiServer:
    """`ask(body)` gives True, False, or None where nobody answered: then the request fails."""

    clock: object
    ask: object
    random: random.Random
    objects: dict = field(default_factory=dict)
    #: (uid, what is held from then on; None = nothing), in the order of the writes.
    log: list = field(default_factory=list)
    #: Uids of reviews that asked for more and were allowed, and of dry runs.
    allowed: set = field(default_factory=set)
    dry: set = field(default_factory=set)
    #: Lines of the watch that nobody has read yet.
    lines: list = field(default_factory=list)
    outcomes: dict = field(default_factory=dict)
    _revision: int = 0
    _reviews: int = 0
    _landing: set = field(default_factory=set)

    async def create(self, item, *, times=1, dry_run=False):
        """Ask `times` times, as when a webhook is invoked anew; then write it, now, later or never."""
        began_us = self.clock.now_us()
        if not await self._admitted("CREATE", item, times=times, dry_run=dry_run) or dry_run:
            return self._ended("dry run" if dry_run else "refused")
        if self.random.random() < 0.15:
            return self._ended("lost")
        self._land(self._created(item, began_us))

    async def update(self, uid, replicas, *, times=1, subresource=""):
        """Change the replicas of what is stored; after a conflict ask again, as for a patch."""
        began_us = self.clock.now_us()
        for _ in range(5):
            old = self.objects.get(uid)
            if old is None:
                return self._ended("gone")
            new = replace(old, replicas=replicas)
            if not await self._admitted("UPDATE", new, old, times=times, subresource=subresource):
                return self._ended("refused")
            if self.random.random() < 0.1:
                return self._ended("lost")
            if self.objects.get(uid) == old:
                return self._land(self._updated(new, began_us))
            self._ended("conflict")

    async def delete(self, uid):
        """Remove it, if the webhook lets it go."""
        old = self.objects.get(uid)
        if old is not None and await self._admitted("DELETE", None, old):
            self.remove(uid)

    def remove(self, uid):
        """What a user or a controller deleted is gone at once."""
        old = self.objects.pop(uid, None)
        if old is not None:
            self._revision += 1
            self.log.append((uid, old.quota, None))
            self.lines.append((replace(old, version=self._revision), False))

    def touch(self, uid):
        """A new version that asks for nothing else, as a change of the status is."""
        if uid in self.objects:
            self._write(self.objects[uid])

    async def landed(self):
        """Return when no request is on its way."""
        while self._landing:
            await asyncio.wait(self._landing)

    async def _admitted(self, operation, item, old=None, *, times=1, subresource="", dry_run=False):
        reviews = []
        for _ in range(times):
            self._reviews += 1
            reviews.append(f"review-{self._reviews}")
        if times == 3:
            # The same review, word by word, over another way.
            reviews[2] = reviews[0]
        self.dry.update(reviews if dry_run else ())

        async def asked(uid):
            body = review(uid, operation, item, old, subresource=subresource, dry_run=dry_run)
            allowed = await self.ask(body)
            if allowed and not dry_run and item and item.replicas > (old.replicas if old else 0):
                self.allowed.add(uid)
            return allowed

        return any(await asyncio.gather(*map(asked, reviews)))

    def _land(self, write):
        task = asyncio.create_task(write)
        self._landing.add(task)
        task.add_done_callback(self._landing.discard)

    async def _late(self, began_us):
        """Wait as long as this write takes to reach the store; whether it still may be written."""
        if self.random.random() < 0.4:
            left_us = began_us + DEADLINE_US - self.clock.now_us()
            await asyncio.sleep(self.random.random() * 1.1 * left_us / self.clock.speed / SECOND_US)
        return self.clock.now_us() <= began_us + DEADLINE_US

    async def _created(self, item, began_us):
        if not await self._late(began_us):
            return self._ended("late")
        self._write(item)
        self._ended("stored")

    async def _updated(self, new, began_us):
        is_in_time = await self._late(began_us)
        known = self.objects.get(new.uid)
        if not is_in_time or known is None or known.version != new.version:
            return self._ended("not updated")
        self._write(new)
        self._ended("updated")

    def _write(self, item):
        self._revision += 1
        stored = replace(item, version=self._revision)
        self.objects[item.uid] = stored
        self.log.append((item.uid, item.quota, stored.amounts))
        self.lines.append((stored, True))

    def _ended(self, how):
        self.outcomes[how] = self.outcomes.get(how, 0) + 1


class Source:
    """Says what the API server stores, in order, as a watch and lists show it."""

    def __init__(self, server, transport, clock):
        self._server = server
        self._transport = transport
        self._clock = clock
        self._wanted = asyncio.Event()

    def relist(self, kind=KIND):
        """Have a complete list said soon."""
        self._wanted.set()

    async def say_quotas(self, quotas):
        """The quotas, as {name: (parent, hard)}."""
        for number, (name, (parent, hard)) in enumerate(quotas.items(), 1):
            fact = QuotaObserved(
                uid=f"uid-{name}", kind="BizGroupResourceQuota", name=name, parent=parent,
                resource_version=str(number), hard=hard,
            )  # fmt: skip
            await self._publish([self._event(fact, fact.uid, number, self._clock.now_us())])

    async def run(self):
        """For ever."""
        while True:
            if self._wanted.is_set():
                self._wanted.clear()
                await self._list()
            elif self._server.lines:
                await self._watch()
            await asyncio.sleep(0.01)

    async def _watch(self):
        lines, self._server.lines = self._server.lines, []
        # As a source does: lines are stamped when they are read, however long they lay there.
        received_us = self._clock.now_us()
        await self._publish([self._said(*line, received_us) for line in lines])

    async def _list(self):
        asked_us = self._clock.now_us()
        uids, version = set(self._server.objects), self._server._revision
        await self._watch()
        parts = listed(
            lambda **part: ObjectsListed(kind=KIND, **part), uids, name=KIND, time_us=asked_us,
            resource_version=str(version), cluster=CLUSTER, source="source",
        )  # fmt: skip
        await self._publish(parts)

    def _said(self, item, is_there, received_us):
        fact = item.observed()
        if not is_there:
            fact = WorkloadVanished(
                uid=item.uid, kind=KIND, namespace="ns", name=item.uid,
                resource_version=str(item.version),
            )  # fmt: skip
        return self._event(fact, item.uid, item.version, received_us)

    def _event(self, fact, uid, version, time_us):
        id = f"{uid}/{version}/{fact.wire_type}"
        return fact.event(cluster=CLUSTER, key=uid, id=id, source="source", time_us=time_us)

    async def _publish(self, events):
        while events:
            try:
                return await self._transport.publish(events)
            except RetryableError:
                await asyncio.sleep(0.05)

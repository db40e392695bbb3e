"""A cluster in memory for admission: what was seen is said to a history, reviews are asked of a handler."""

import itertools

import msgspec

from bus.amounts import ContainerResources, PodResources
from bus.clock import SECOND_US
from bus.events.admissions import entries
from bus.events.nodes import NodeObserved
from bus.events.observations import ObjectsListed
from bus.events.pods import PodObserved, PodsListed, PodVanished, encoded_resources
from bus.events.quotas import QuotaObserved, QuotaVanished
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from reactors.admitting import following
from reactors.rederive.journals import rederive
from reactors.rederive.snapshots import charged
from reactors.webhook.review import Review
from tests.reactors.engine.restoring import answers_of, known_to, readers_of
from tests.scenario import Clock, History, settled

START_US = 1_767_225_600 * SECOND_US
QUOTA = "biz.group.resource.quota"


class Cluster(History):
    """One history, one handler, and a keeper that works when it is told to settle.

    When it ends well, its journals must follow from the history, where that is in memory and nobody altered it.
    """

    def __init__(self, transport=None, **options):
        super().__init__("c1", transport, Clock(START_US))
        #: Somebody altered the history: then it need not follow.
        self.is_tampered = False
        self._options = options
        self._versions = itertools.count(1)
        self._reviews = itertools.count(1)

    async def __aenter__(self):
        self._following = following(
            self.transport,
            self.clock,
            cluster="c1",
            source="webhook/1",
            keeps=True,
            **self._options,
        )
        self.admission = await self._following.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self._following.__aexit__(*error)
        is_in_memory = hasattr(self.transport, "events")
        if error == (None, None, None) and is_in_memory and not self.is_tampered:
            found = self.rederived()
            assert () == found.reviews.differences + found.observed.differences
            self._broken_off()

    def _broken_off(self):
        """A start in the middle of the history, from a snapshot, knows in the end what one from its beginning does."""
        history = self.transport.events
        cuts = {len(history) // 2, len(history) * 3 // 4}
        whole, found = readers_of(history, cluster="c1"), readers_of(history, cuts, cluster="c1")
        assert known_to(whole) == known_to(found)
        assert answers_of(whole) == answers_of(found)
        # The live one is what a process would save.
        live = dict(charged(self.admission.journals, self.admission.view))
        assert live == dict(charged(whole.journals, whole.view))

    def rederived(self):
        """What comes of deriving the journals again from the history."""
        return rederive(
            lambda: self.transport.events, cluster="c1", transport=self.transport, clock=self.clock
        )

    async def say(self, fact, key, time_us=None, *, settles=True):
        version = getattr(fact, "resource_version", "") or str(next(self._versions))
        id = f"{key}/{version}/{fact.wire_type}"
        time_us = self.clock.us if time_us is None else time_us
        await self.transport.publish(
            [fact.event(cluster="c1", key=key, id=id, source="test", time_us=time_us)]
        )
        if settles:
            await self.settled()

    async def settled(self):
        """Until the history was read and the keeper has nothing left to do."""
        await settled()

    async def see_quota(self, name, hard, parent="", uid="", **fields):
        fact = QuotaObserved(
            uid=uid or f"uid-{name}", kind=fields.pop("kind", "BizGroupResourceQuota"), name=name,
            resource_version=str(next(self._versions)), parent=parent, hard=hard, **fields,
        )  # fmt: skip
        await self.say(fact, fact.uid)

    async def lose_quota(self, name, kind="BizGroupResourceQuota"):
        version = str(next(self._versions))
        fact = QuotaVanished(uid=f"uid-{name}", kind=kind, name=name, resource_version=version)
        await self.say(fact, fact.uid)

    async def see(
        self, uid, cpu, *, quota="team", kind="Job", namespace="ns", settles=True, **fields
    ):
        fact = WorkloadObserved(
            uid=uid, kind=kind, namespace=namespace, name=uid,
            resource_version=str(next(self._versions)),
            **({"demand": demand(cpu), "labels": {QUOTA: quota} if quota else {}} | fields),
        )  # fmt: skip
        await self.say(fact, uid, settles=settles)

    async def lose(self, uid, kind="Job", namespace="ns"):
        fact = WorkloadVanished(
            uid=uid, kind=kind, namespace=namespace, name=uid,
            resource_version=str(next(self._versions)),
        )  # fmt: skip
        await self.say(fact, uid)

    async def see_pod(
        self, uid, cpu, *, phase="Running", owner=None, settles=True, namespace="ns", **fields
    ):
        container = ContainerResources(requests={"cpu": str(cpu)})
        fields = {"labels": {QUOTA: "team"}} | fields
        fact = PodObserved(
            uid=uid, namespace=namespace, name=uid, resource_version=str(next(self._versions)),
            phase=phase, owner=owner, resources=encoded_resources(PodResources((container,))),
            **fields,
        )  # fmt: skip
        await self.say(fact, uid, settles=settles)

    async def lose_pod(self, uid, owner=None, *, settles=True):
        fact = PodVanished(
            uid=uid, namespace="ns", name=uid, resource_version=str(next(self._versions)), owner=owner
        )  # fmt: skip
        await self.say(fact, uid, settles=settles)

    async def list_pods(self, *uids):
        fact = PodsListed(resource_version=str(next(self._versions)), uids=tuple(sorted(uids)))
        await self.say(fact, f"pods-{fact.resource_version}")

    async def see_node(self, name, uid, **fields):
        version = str(next(self._versions))
        fact = NodeObserved(uid=uid, name=name, resource_version=version, **fields)
        await self.say(fact, name)

    def skip_versions(self, to):
        self._versions = itertools.count(to)

    async def list(self, *uids, kind="Job", at_us=None):
        fact = ObjectsListed(
            kind=kind, resource_version=str(next(self._versions)), uids=tuple(sorted(uids))
        )
        await self.say(fact, f"{kind}-{fact.resource_version}", at_us)

    async def ask(self, uid, cpu, *, quota="team", **fields):
        return await self.review(job(uid, cpu, quota), **fields)

    async def review(self, object, *, at=None, **fields):
        """``at``: the process that is asked; None = the first."""
        metadata = (object or fields.get("old_object"))["metadata"]
        known = {
            "uid": f"review-{next(self._reviews)}", "operation": "CREATE", "group": "batch",
            "version": "v1", "resource": "jobs", "subresource": "", "kind": "Job",
            "namespace": metadata.get("namespace", ""), "name": metadata["name"], "user": "amy",
            "groups": (), "dry_run": False, "object": object, "old_object": None, "options": None,
        }  # fmt: skip
        return await (at or self.admission).handler(Review(**{**known, **fields}))

    def used(self, quota="team", key="limits.cpu"):
        journals = self.admission.journals
        tree = journals.tree(journals.places[("BizGroupResourceQuota", quota)])
        return tree.nodes[quota].used(key)

    def said(self, type):
        """Bodies of the journal's events of one type."""
        return [
            msgspec.json.decode(e.body)
            for event in self.transport.events
            for e in entries(event)
            if e.type == f"admission.{type}"
        ]


def demand(cpu):
    amount = int(cpu * 1000)
    return {"limits.cpu": amount, "requests.cpu": amount} if amount else {}


def job(uid, cpu, quota="team", namespace="ns"):
    container = {"name": "main", "resources": {"limits": {"cpu": str(cpu)}}}
    labels = {QUOTA: quota} if quota else {}
    return {
        "metadata": {"name": uid, "namespace": namespace, "uid": uid, "labels": labels},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }

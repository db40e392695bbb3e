"""Bursar's scheduler beside a real API server, as `bursar up` runs it, and an adapter that stands in its way."""

import asyncio
import contextlib
import random
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

from bus import crashpoints
from bus.amounts import parse_quantity
from bus.clock import SystemClock
from bus.errors import ClusterUnavailableError, RequestRefusedError
from bus.kube.client import Access, connect
from bus.kube.watch.contract import ReflectorSettings
from bus.kube.watch.reflector import Reflector
from bus.sources.catalogue import NAMESPACES, NODES, PODS, PRIORITIES
from deploy.runtime.reactors import acting
from reactors.scheduling import NAME
from reactors.scheduling.effectors.binder import LATE_SECONDS, REFUSED_SECONDS
from reactors.scheduling.framework.bind import DECISION
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from tests.cluster.api import MERGE

SOURCES = (NAMESPACES, PRIORITIES, NODES, PODS)
QUICK = ReflectorSettings(apart_seconds=0.0, wait_seconds=0.1, longest_wait_seconds=1.0)
PODS_PATH = "/api/v1/namespaces/default/pods"
NODES_PATH = "/api/v1/nodes"
#: A node that is cordoned while a request is on its way gives its pod free after so long, and the next one may be refused: the
#: binder promises both.
LONGEST = LATE_SECONDS + 2 * REFUSED_SECONDS + 30


LABELS = (
    "decision.before_publish", "decision.after_publish", "bind.before_post", "bind.after_post",
    "bind.before_settle",
)  # fmt: skip
#: Where volumes are made for pods, and where less important pods go for others.
CLAIMING = ("bind.before_claim", "bind.after_claim", "bind.before_post", "bind.after_post")
PREEMPTING = (
    "decision.before_publish", "decision.after_publish", "effect.before_act", "evict.before_evict",
    "evict.after_evict", "effect.after_settle",
)  # fmt: skip


#: Set in the process that dies, of several in one.
MORTAL = ContextVar("MORTAL", default=False)


class KilledError(BaseException):
    """The process ends here."""


class Meddled:
    """The product's adapter to the cluster. Of so many binds one goes wrong, each in its way."""

    def __init__(self, door):
        self._door = door
        self.tried = self.wrong = 0
        #: Names of pods whose user makes another one of that name just before they are bound.
        self.replaced, self.replace = set(), None
        #: Names of nodes that are deleted just before a pod is bound to them.
        self.doomed, self.remove = set(), None
        #: Names of pods that a policy of the cluster keeps from their first node, whoever asks and however often; what it refused.
        self.forbidden, self._decisions = set(), {}

    def __getattr__(self, name):
        return getattr(self._door, name)

    async def bind(self, namespace, pod, *, node, annotations, **fields):
        self.tried += 1
        wrong = {23: "busy", 31: "lost", 37: "never sent", 41: "refused"}
        what = next((wrong[n] for n in wrong if self.tried % n == 0), "")
        self.wrong += bool(what)
        if pod in self.replaced:
            self.replaced.discard(pod)
            # A kill of ours does not end what the user does.
            await asyncio.shield(self.replace(pod))
        if node in self.doomed:
            self.doomed.discard(node)
            await asyncio.shield(self.remove(node))
        if what == "busy":
            raise ClusterUnavailableError(status=429, delay_seconds=0.1)
        decision = annotations[DECISION]
        if pod in self.forbidden and self._decisions.setdefault(pod, decision) == decision:
            what = "refused"
        if what == "refused":
            raise RequestRefusedError(status=422, message="a policy of the cluster refuses it")
        if what == "never sent":
            raise ClusterUnavailableError(reason="ConnectionResetError", delay_seconds=0.1)
        await self._door.bind(namespace, pod, node=node, annotations=annotations, **fields)
        if what == "lost":
            raise ClusterUnavailableError(reason="TimeoutError", delay_seconds=0.1)


def pod(name, cpu, memory_gib, scheduler="bursar"):
    """A pod that no controller made."""
    requests = {"cpu": cpu, "memory": f"{memory_gib}Gi"}
    container = {"name": "main", "image": "x", "resources": {"requests": requests}}
    return {
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


def pods(count, seed, prefix="p"):
    """Pods of several sizes."""
    dice = random.Random(seed)
    sizes = ("100m", "250m", "500m", "1", "2")
    return [pod(f"{prefix}{n}", dice.choice(sizes), dice.randint(1, 4)) for n in range(count)]


def schedulable(plane, count, **options):
    """New nodes without taints, which the controllers would take away; their names."""
    names = plane.create_nodes(count, gpus=0, **options)
    for name in names:
        patch = {"spec": {"taints": None}}
        plane.api.request(
            "PATCH", f"{NODES_PATH}/{name}", patch, content_type="application/merge-patch+json"
        )
    return names


@contextlib.asynccontextmanager
async def watched(plane, transport, door=lambda cluster: cluster, sources=SOURCES):
    """The cluster's adapter, while its sources say to ``transport`` what there is."""
    cluster, clock = door(await connect(Access(str(plane.kubeconfig)))), SystemClock()
    reflectors = [
        Reflector(source, cluster, transport, clock, name="c1", settings=QUICK)
        for source in sources
    ]
    tasks = [asyncio.create_task(one.run()) for one in reflectors]
    try:
        yield cluster
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()


def scheduling(transport, cluster, mode="on", policy=None):
    """The scheduler alone of all that `bursar up` runs."""
    wanted = {NAME: (mode, policy or SchedulingPolicy())}
    return acting(transport, cluster, wanted, name="c1", reactors=(reactor,))


@contextlib.asynccontextmanager
async def killed_again_and_again(acting, labels=LABELS):
    """A process that dies at each label once, and begins anew; which labels are left."""
    left = list(labels)

    def hook(label):
        if label in left and MORTAL.get():
            left.remove(label)
            raise KilledError(label)

    async def run():
        MORTAL.set(True)
        while True:
            try:
                async with acting():
                    await asyncio.Event().wait()
            except* KilledError:
                pass

    crashpoints.install(hook)
    task = asyncio.create_task(run())
    try:
        yield left
    finally:
        crashpoints.install(None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Scene:
    """What is asked of the API server beside Bursar; requests run in threads."""

    def __init__(self, plane):
        self._api, self._threads = plane.api, ThreadPoolExecutor(8)
        #: Nodes that are made again when they are lost.
        self.returning = set()

    async def request(self, *args, **options):
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, lambda: self._api.request(*args, **options)
        )

    async def create(self, bodies):
        await asyncio.gather(*(self.request("POST", PODS_PATH, one) for one in bodies))

    async def replace(self, name):
        """Its user deletes a pod, and makes another of its name."""
        await self.request("DELETE", f"{PODS_PATH}/{name}?gracePeriodSeconds=0")
        await self.request("POST", PODS_PATH, pod(name, "1", 1))

    async def remove(self, node):
        """A node is lost; one of those that return is made again at once, and has the pods of its name."""
        found = await self.request("GET", f"{NODES_PATH}/{node}")
        await self.request("DELETE", f"{NODES_PATH}/{node}")
        fields = ("name", "labels")
        found["metadata"] = {
            name: found["metadata"][name] for name in fields if name in found["metadata"]
        }
        if node in self.returning:
            await self.request("POST", NODES_PATH, found)
            path, status = f"{NODES_PATH}/{node}", {"status": found["status"]}
            await self.request("PATCH", f"{path}/status", status, content_type=MERGE)
            # The API server gives every new node a taint, which a controller would take away.
            await self.request("PATCH", path, {"spec": {"taints": None}}, content_type=MERGE)

    async def cordon(self, name):
        patch = {"spec": {"unschedulable": True}}
        await self.request("PATCH", f"{NODES_PATH}/{name}", patch, content_type=MERGE)

    async def pods(self):
        return (await self.request("GET", PODS_PATH))["items"]

    async def nodes(self):
        return (await self.request("GET", NODES_PATH))["items"]

    async def all_bound(self):
        await self._none(lambda pod: not pod["spec"].get("nodeName"))

    async def so_many_bound(self, count):
        """Until so many have a node. Who was told that there is no room is tried again: what a killed process decided held it."""
        async with asyncio.timeout(LONGEST):
            while sum(bool(pod["spec"].get("nodeName")) for pod in await self.pods()) < count:
                await asyncio.sleep(0.2)

    async def all_told(self):
        """Until each is bound, or was told that there is no room."""
        await self._none(lambda pod: not pod["status"].get("conditions"))

    async def all_used(self, names):
        """Until each of these nodes has a pod."""
        async with asyncio.timeout(LONGEST):
            while names - {pod["spec"].get("nodeName") for pod in await self.pods()}:
                await asyncio.sleep(0.2)

    async def _none(self, is_left, seconds=LONGEST):
        end = asyncio.get_running_loop().time() + seconds
        while left := [p for p in await self.pods() if is_left(p)]:
            assert asyncio.get_running_loop().time() < end, [p["metadata"]["name"] for p in left]
            await asyncio.sleep(0.2)


def overcommitted(nodes, found):
    """Nodes that hold more than they have, by the API server's own record, one dimension after the other."""
    wrong = []
    for node in nodes:
        allocatable = node["status"]["allocatable"]
        mine = [
            one
            for one in found
            if one["spec"].get("nodeName") == node["metadata"]["name"]
            and one["status"]["phase"] not in ("Succeeded", "Failed")
        ]
        asked = [c["resources"]["requests"] for one in mine for c in one["spec"]["containers"]]
        for resource in ("cpu", "memory"):
            used = sum(parse_quantity(one[resource]) for one in asked)
            if used > parse_quantity(allocatable[resource]):
                wrong.append((node["metadata"]["name"], resource))
        if len(mine) > int(allocatable["pods"]):
            wrong.append((node["metadata"]["name"], "pods"))
    return wrong

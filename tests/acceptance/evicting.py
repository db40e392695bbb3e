"""Five hundred pods of one elastic quota on a real API server, some under disruption budgets, and Bursar beside them.

Bursar's clock runs twenty times as fast as the machine's, so that the interlock's five minutes take fifteen seconds; no rule
and no limit is changed for it.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from pathlib import Path

import msgspec

from bus.clock import SystemClock, parse_stamp
from bus.kube.watch.contract import ReflectorSettings
from bus.sources.catalogue import (
    BUSINESS_QUOTAS,
    ELASTIC_QUOTAS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITIES,
    WORKLOADS,
)
from deploy.runtime.reactors import acting
from reactors.engine import runner
from reactors.engine.runner import announce
from reactors.engine.settings import Pace
from reactors.evictions import NAME
from reactors.evictions.settings import EvictionPolicy
from tests.acceptance.queueing import Counted, queued

CRD = Path(__file__).parents[1] / "cluster" / "crds" / "elasticquotas.yaml"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/quotas/elasticquotas"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PODS_PATH = "/api/v1/namespaces/{}/pods"
LABEL = "quota.scheduling.koordinator.sh/name"
KEEP = {"quota.scheduling.koordinator.sh/preemptible": "false"}
SOURCES = (NAMESPACES, PRIORITIES, BUSINESS_QUOTAS, ELASTIC_QUOTAS, NODES, WORKLOADS["Job"], PODS)
QUICK = ReflectorSettings(apart_seconds=0.0, wait_seconds=0.1, longest_wait_seconds=1.0)

SPEED = 20
PER_MINUTE = 6
POLICY = EvictionPolicy(
    monitor_all_quotas=True,
    delay_evict_seconds=20,
    pace=Pace(per_minute=PER_MINUTE, per_namespace=1000, per_node=1000),
)
#: Values of the priority classes.
LOW, MIDDLE, HIGH = 10, 20, 30
CLASSES = {LOW: "low", MIDDLE: "middle", HIGH: "high"}
#: Label ``app`` to how many pods of which priority; of the first two a disruption budget says how many must stay.
GROUPS = {
    "frozen": (6, LOW), "few": (10, LOW), "kept": (10, LOW), "cheap": (24, LOW),
    "usual": (200, MIDDLE), "dear": (250, HIGH),
}  # fmt: skip
LEAST = {"frozen": 6, "few": 7}
HELD = sum(number for number, _ in GROUPS.values())
BYSTANDERS = 300


class FastClock:
    """Begins with the machine's, and runs :data:`SPEED` times as fast."""

    def __init__(self):
        self._began_us, self._began = SystemClock().now_us(), time.monotonic()

    def now_us(self):
        return self._began_us + int((time.monotonic() - self._began) * SPEED * 10**6)

    async def after(self, seconds):
        """Wait so long by this clock."""
        await asyncio.sleep(seconds / SPEED)


class Meddled(Counted):
    """The product's adapter to the cluster. What is evicted is noted, and pods may be replaced just before it is done."""

    def __init__(self, door):
        super().__init__(door)
        self.evicted = []
        #: Before which request the pod of a name is replaced: name to get or evict.
        self.replaced_before = {}
        self.replace = None
        #: Lists of pods have none.
        self.is_empty = False

    async def get(self, path):
        await self._meddle("get", path.rpartition("/")[2])
        return await self._door.get(path)

    async def evict(self, namespace, pod, *, uid):
        await self._meddle("evict", pod)
        answer = await self._door.evict(namespace, pod, uid=uid)
        self.evicted.append(uid)
        return answer

    async def page(self, path, **options):
        page = await self._door.page(path, **options)
        if self.is_empty and path == PODS.path:
            return msgspec.structs.replace(page, items=[], following="", remaining=0)
        return page

    async def _meddle(self, request, name):
        if self.replaced_before.get(name) == request:
            del self.replaced_before[name]
            await self.replace(name)


class Scene:
    """What :func:`crowded` gives."""

    def __init__(self, site, clock, transport):
        self.site, self.clock, self.transport = site, clock, transport
        self.door = site.cluster
        self.door.replace = self._replace
        #: Name to uid of pods that took the name of another.
        self.namesakes = {}
        self.running = None

    async def pods(self, namespace="default"):
        """Name to pod."""
        found = await self.site.request("GET", PODS_PATH.format(namespace), seconds=60)
        return {one["metadata"]["name"]: one for one in found["items"]}

    async def limit(self, cpu):
        """Set the most that the quota may use."""
        kind = "application/merge-patch+json"
        body = {"spec": {"max": {"cpu": str(cpu)}}}
        await self.site.request("PATCH", f"{QUOTAS}/team", body, content_type=kind)

    async def mode(self, mode):
        """Change the policy as a restart with other settings does."""
        given = (self.running, self.transport, self.clock, NAME, mode, POLICY)
        await announce(*given, author="settings")

    async def fill(self):
        """All pods run, and Bursar knows them."""
        for value, name in CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            await self.site.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        # The quota lies where no pod does, so that only those with its label belong to it.
        for name in ("elsewhere", "quotas"):
            await self.site.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        spec = {"min": {"cpu": "100"}, "max": {"cpu": str(HELD)}}
        body = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
        body |= {"metadata": {"name": "team"}, "spec": spec}
        await self.site.request("POST", QUOTAS, body)
        await self._until(lambda: ("ElasticQuota", "team") in self.site.admission.journals.places)
        asked = [
            ("default", pod(f"{app}-{n}", app, priority))
            for app, (number, priority) in GROUPS.items()
            for n in range(number)
        ]
        asked += [("elsewhere", pod(f"by-{n}", "", HIGH)) for n in range(BYSTANDERS)]
        random.Random(5).shuffle(asked)
        await asyncio.gather(
            *(
                self.site.request("POST", PODS_PATH.format(where), one, seconds=120)
                for where, one in asked
            )
        )
        known = self.running.replica.cluster_state

        def runs():
            phases = Counter(one.phase for one in known.pods.values() if one.is_bound)
            return phases["Running"] == HELD + BYSTANDERS

        await self._until(runs, 120)

    async def protect(self):
        """Disruption budgets whose status stands."""
        for app, least in LEAST.items():
            spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
            await self.site.request("POST", BUDGETS, {"metadata": {"name": app}, "spec": spec})
        allowed = {app: GROUPS[app][0] - least for app, least in LEAST.items()}
        async with asyncio.timeout(60):
            while True:
                items = (await self.site.request("GET", BUDGETS))["items"]
                found = {b["metadata"]["name"]: b.get("status", {}) for b in items}
                if allowed == {n: s.get("disruptionsAllowed") for n, s in found.items()} and all(
                    s.get("expectedPods") == GROUPS[n][0] for n, s in found.items()
                ):
                    return
                await asyncio.sleep(0.2)

    async def _replace(self, name):
        """Its user deletes a pod, and makes another of its name, which belongs to no quota."""
        path = PODS_PATH.format("default")
        await self.site.request("DELETE", f"{path}/{name}?gracePeriodSeconds=0")
        made = await self.site.request("POST", path, pod(name, "", LOW))
        self.namesakes[name] = made["metadata"]["uid"]

    async def _until(self, holds, seconds=30):
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.1)


def pod(name, app, priority):
    """A pod of one core; with an ``app`` it belongs to the quota."""
    labels = {LABEL: "team", "app": app} if app else {}
    labels |= KEEP if app == "kept" else {}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "containers": [container], "priorityClassName": CLASSES[priority],
        # Bound by hand, as a scheduler would keep them to what nodes have.
        "nodeName": f"node-{sum(name.encode()) % 10}", "terminationGracePeriodSeconds": 0,
    }  # fmt: skip
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def least_first(pods):
    """Names of the pods that may be evicted: the lowest priority first, of these the last started, then by name."""

    def begun(name):
        return parse_stamp(pods[name]["metadata"]["creationTimestamp"])

    found = [name for name, one in pods.items() if one["metadata"]["labels"]["app"] != "kept"]
    found.sort(reverse=True)
    return sorted(found, key=lambda name: (pods[name]["spec"]["priority"], -begun(name)))


@contextlib.asynccontextmanager
async def crowded(plane, folder, transport, monkeypatch):
    """The scene, in shadow: nobody has to go yet."""
    plane.kubectl("apply", "--server-side", "-f", str(CRD))
    crd = "crd/elasticquotas.scheduling.sigs.k8s.io"
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", crd)
    # The clock's ten seconds in the machine's time.
    monkeypatch.setattr(runner, "TICK_US", 10 * 10**6 // SPEED)
    clock = FastClock()
    given = {"sources": SOURCES, "clock": clock, "door": Meddled, "settings": QUICK}
    async with queued(plane, folder, transport, **given) as site:
        scene = Scene(site, clock, transport)
        wanted = {NAME: ("shadow", POLICY)}
        async with acting(transport, site.cluster, wanted, name="c1", clock=clock) as scene.running:
            await scene.fill()
            await scene.protect()
            yield scene

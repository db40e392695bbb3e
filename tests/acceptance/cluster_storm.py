"""The storm at a real API server, and the API server's own record of what it stored, write by write."""

import asyncio
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.apiserver import DEADLINE_US, GIB, QUOTA, TYPE
from tests.acceptance.balancing import Balancer
from tests.acceptance.cluster_clients import KINDS, Orders, crowded
from tests.acceptance.cluster_site import Site
from tests.acceptance.storm import Storm
from tests.acceptance.webhook_process import CLUSTER
from tests.cluster.api import ApiError

MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests"
QUOTAS = "/apis/bursar.io/v1alpha1/bizgroupresourcequotas"
NAMESPACE = "storm"


def flags(speed):
    """Of an API server whose request deadline is what a clock of this speed takes for 60 s."""
    return [f"--request-timeout={DEADLINE_US // 1000 // speed}ms"]


class Held(NamedTuple):
    """What one object holds of its quota."""

    uid: str
    quota: str
    amounts: dict


def held(stored):
    """What a stored object holds, by sums of the test's own."""
    metadata, spec = stored["metadata"], stored["spec"]
    pods = spec[KINDS[stored["kind"]][1]]
    limits = spec["template"]["spec"]["containers"][0]["resources"]["limits"]
    cpu = 1000 * int(limits["cpu"]) * pods
    found = {
        "limits.cpu": cpu,
        "requests.memory": GIB * int(limits["memory"].removesuffix("Gi")) * pods,
    }
    found |= {"limits.cpu.A4": cpu} if TYPE in metadata["labels"] else {}
    return Held(metadata["uid"], metadata["labels"][QUOTA], found if pods else {})


class Record:
    """All writes of Deployments and Jobs from the first one on, by watches of the test's own.

    A watch of one version tells every later write once, in order; resourceVersions order the writes of both kinds.
    """

    def __init__(self, api):
        self._api = api
        #: (resourceVersion, what is held from then on; amounts None = it is gone).
        self._writes = []
        self._errors = []
        self._is_over = False
        self._threads = []

    def begin(self):
        for kind, (folder, _) in KINDS.items():
            path = folder.format(NAMESPACE)
            listed = self._api.request("GET", path)
            assert listed["items"] == []
            version = listed["metadata"]["resourceVersion"]
            self._threads.append(threading.Thread(target=self._follow, args=(kind, path, version)))
        for thread in self._threads:
            thread.start()

    def _follow(self, kind, path, version):
        try:
            while not self._is_over:
                for event in self._api.watch(path, version, seconds=5):
                    assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                    found = held({"kind": kind, **event["object"]})
                    if event["type"] == "DELETED":
                        found = found._replace(amounts=None)
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._writes.append((int(version), found))
        except Exception as error:
            self._errors.append(error)

    async def complete(self, seconds=30):
        """Return when it shows what the API server stores now."""
        async with asyncio.timeout(seconds):
            while True:
                assert self._errors == []
                stored = await asyncio.to_thread(self._stored)
                if stored == {
                    uid: version for uid, (version, one) in self._last().items() if one.amounts is not None
                }:  # fmt: skip
                    return
                await asyncio.sleep(0.2)

    def _stored(self):
        return {
            item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"])
            for folder, _ in KINDS.values()
            for item in self._api.request("GET", folder.format(NAMESPACE))["items"]
        }

    def _last(self):
        return {one.uid: (version, one) for version, one in sorted(self._writes, key=_version)}

    def end(self):
        self._is_over = True
        for thread in self._threads:
            thread.join()
        assert self._errors == []

    @property
    def objects(self):
        """What stands now."""
        return {uid: one for uid, (_, one) in self._last().items() if one.amounts is not None}

    @property
    def log(self):
        """Every write in the API server's order."""
        return [one for _, one in sorted(self._writes, key=_version)]

    @property
    def written(self):
        """(uid, resourceVersion) of every write."""
        return {(one.uid, version) for version, one in self._writes}


def _version(write):
    return write[0]


@dataclass
class ClusterStorm(Storm):
    """One storm at the API server of `plane`, which has the :func:`flags` of the plan's speed."""

    plane: object = None

    @asynccontextmanager
    async def _cluster(self):
        self.plane.kubectl("apply", "-f", str(MANIFESTS / "crds" / "bursar.io.yaml"))
        # A scale shows no labels of its object: only a mapped namespace has it refused while nobody answers.
        labels = {QUOTA: "root"}
        body = {"metadata": {"name": NAMESPACE, "labels": labels}}
        self.plane.api.request("POST", "/api/v1/namespaces", body)
        self.server = Record(self.plane.api)
        balancer = Balancer(lambda: [one.tls_port for one in self.webhooks])
        async with balancer.listening():
            self.server.begin()
            try:
                url = f"https://127.0.0.1:{balancer.port}"
                folder = self.folder / "webhook"
                yield {"site": Site(self.plane.kubeconfig, url, folder, CLUSTER)}
            finally:
                await asyncio.to_thread(self.server.end)

    async def _declare(self):
        """By the webhooks that run by now: the API server asks them about quotas, too."""
        await self._registered()
        for name, (parent, hard) in self.quotas.items():
            spec = {
                "parentBizGroup": parent,
                "hard": {key: _text(key, n) for key, n in hard.items()},
            }
            body = {
                "apiVersion": "bursar.io/v1alpha1", "kind": "BizGroupResourceQuota",
                "metadata": {"name": name}, "spec": spec,
            }  # fmt: skip
            await self._created(body)

    async def _registered(self):
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        async with asyncio.timeout(30):
            while not self.plane.api.request("GET", path)["items"]:
                await asyncio.sleep(0.1)
        # API servers take a second to hear of a new webhook.
        await asyncio.sleep(1.5)

    async def _created(self, body):
        async with asyncio.timeout(30):
            while True:
                try:
                    return await asyncio.to_thread(self.plane.api.request, "POST", QUOTAS, body)
                except ApiError as error:
                    # Its parent was not seen yet, or the custom kind is not served yet.
                    if error.status not in (403, 404, 500):
                        raise
                    await asyncio.sleep(0.05)

    async def _clients(self):
        orders = Orders(
            self.plane.url, self.plane.token, str(self.plane.ca_file), NAMESPACE,
            tuple(self.quotas), self.plan.requests, self.plan.clients, self.plan.seed,
        )  # fmt: skip
        context = multiprocessing.get_context("forkserver")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            loop = asyncio.get_running_loop()
            self.told_clients = await loop.run_in_executor(pool, crowded, orders)
        await self.server.complete()

    def _others(self):
        return []


def _text(key, amount):
    """An amount as a quota's object has it."""
    return str(amount) if key.endswith("memory") else f"{amount}m"

"""Bursar beside a real API server as far as queues need it: sources, keeper, queues and webhooks, in this process."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

from bus.clock import SystemClock
from bus.kube.client import Access, connect
from bus.kube.crds.manifests import manifest
from bus.kube.watch.reflector import Reflector
from bus.sources.catalogue import BUSINESS_QUOTAS, NAMESPACES, PODS, PRIORITIES, WORKLOADS
from deploy.runtime.admission import serving
from reactors.admitting import following
from reactors.webhook.certificates import OwnCertificates
from reactors.webhook.registration import RegistrationSettings
from reactors.webhook.server import ServerSettings
from tests.cluster.processes import free_port

SOURCES = (NAMESPACES, PRIORITIES, BUSINESS_QUOTAS, WORKLOADS["Job"], PODS)
LABEL = "biz.group.resource.quota"
QUOTAS = "/apis/bursar.io/v1alpha1/bizgroupresourcequotas"
PATH = "/apis/batch/v1/namespaces/{}/jobs"


class Counted:
    """The product's adapter to the cluster, whose patches are counted by what they were about."""

    def __init__(self, door):
        self._door = door
        self.patches = []

    def __getattr__(self, name):
        return getattr(self._door, name)

    async def patch(self, path, operations):
        self.patches.append(path.rpartition("/")[2])
        return await self._door.patch(path, operations)


class Site:
    """What :func:`queued` gives. Requests run in threads, as the webhook needs the loop."""

    def __init__(self, plane, admission, cluster, clients, reflectors):
        self.plane, self.admission, self.cluster = plane, admission, cluster
        #: By the name of their source.
        self.reflectors = reflectors
        self._clients = ThreadPoolExecutor(clients)

    async def request(self, *args, **options):
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._clients, lambda: self.plane.api.request(*args, **options)
        )

    async def make_quota(self, name, cpu, parent="", **queue):
        spec = {"hard": {"limits.cpu": str(cpu)}, "parentBizGroup": parent}
        spec |= {"queue": {"hold": True, **queue}} if queue is not None else {}
        body = {"apiVersion": "bursar.io/v1alpha1", "kind": "BizGroupResourceQuota"}
        await self.request("POST", QUOTAS, body | {"metadata": {"name": name}, "spec": spec})
        async with asyncio.timeout(30):
            while not self._stands(name):
                await asyncio.sleep(0.02)

    def _stands(self, name):
        journals = self.admission.journals
        tree = journals.places.get(("BizGroupResourceQuota", name))
        node = journals.tree(tree).nodes.get(name) if tree else None
        return node is not None and node.observed is not None

    async def jobs(self, namespace):
        return (await self.request("GET", PATH.format(namespace)))["items"]

    async def create(self, namespace, name, cpu=1, *, quota="team", seconds=None, query="", **spec):
        return await self.request(
            "POST", PATH.format(namespace) + query, job(name, cpu, quota, seconds, **spec)
        )


def job(name, cpu, quota, seconds=None, **spec):
    """A Job of one pod; with ``seconds`` it ends by itself where nodes are simulated."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": str(cpu)}}}
    notes = {"bursar.test/run-seconds": str(seconds)} if seconds is not None else {}
    template = {
        "metadata": {"annotations": notes},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    metadata = {"name": name, "labels": {LABEL: quota}}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": {"template": template, **spec},
    }  # fmt: skip


@contextlib.asynccontextmanager
async def queued(
    plane,
    folder,
    transport,
    *,
    clients=16,
    sources=SOURCES,
    clock=None,
    door=Counted,
    settings=None,
):
    """Entered when the API server asks the webhooks."""
    await asyncio.to_thread(_install, plane)
    clock, port = clock or SystemClock(), free_port()
    async with contextlib.AsyncExitStack() as stack:
        cluster = door(await connect(Access(str(plane.kubeconfig))))
        stack.push_async_callback(cluster.close)
        reflectors = {}
        for source in sources:
            reflector = Reflector(source, cluster, transport, clock, name="c1", settings=settings)
            reflectors[source.name] = reflector
            stack.push_async_callback(_ended, asyncio.create_task(reflector.run()))
        admission = await stack.enter_async_context(
            following(transport, clock, cluster="c1", source="up", keeps=True, starts=cluster)
        )
        registration = RegistrationSettings("bursar", url=f"https://127.0.0.1:{port}")
        certificates = OwnCertificates(folder / "webhook", ("127.0.0.1",), SystemClock())
        server = ServerSettings("127.0.0.1", port)
        await stack.enter_async_context(
            serving(admission, certificates, cluster, server, registration)
        )
        site = Site(plane, admission, cluster, clients, reflectors)
        await _heard(site)
        yield site


def _install(plane):
    plane.kubectl("apply", "--server-side", "-f", "-", input=manifest())
    kind = "bizgroupresourcequotas.bursar.io"
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", kind)


async def _heard(site):
    """Until the API server has read the registration."""
    await site.make_quota("probe", 1, order="Strict")
    async with asyncio.timeout(30):
        while True:
            made = await site.create("default", "probe", quota="probe", query="?dryRun=All")
            if made["spec"].get("suspend"):
                return
            await asyncio.sleep(0.1)


async def _ended(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

"""What a process of the storm does at a real API server: it serves reviews over TLS, registers, and follows.

All of it by the product's own parts, put together as `bursar webhook` and `bursar up` do.
"""

from collections import defaultdict
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bus.clock import SystemClock
from bus.kube.client import Access, connect
from bus.kube.watch.reflector import Reflector
from bus.sources.catalogue import BUSINESS_QUOTAS, NAMESPACES, NODES, PODS, WORKLOADS
from bus.waiting import beside
from deploy.runtime.admission import serving
from reactors.admission.coverage.coverage import POD
from reactors.webhook.certificates import OwnCertificates
from reactors.webhook.registration import RegistrationSettings
from reactors.webhook.server import ServerSettings

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Site:
    """A real API server, and how it reaches the webhooks.

    `folder` holds the certificate that all of them serve. `follows_pods`: it has controllers, which make pods.
    """

    kubeconfig: Path
    url: str
    folder: Path
    cluster: str
    follows_pods: bool = False

    @asynccontextmanager
    async def opened(self):
        """Connections to it."""
        cluster = await connect(Access(str(self.kubeconfig)))
        try:
            yield cluster
        finally:
            await cluster.close()

    @asynccontextmanager
    async def served(self, admission, cluster):
        """Serve reviews; gives the port. With a `cluster` the webhook is registered there, with failurePolicy Fail."""
        registration = RegistrationSettings("bursar-system", url=self.url, failure_policy="Fail")
        certificates = OwnCertificates(self.folder, (HOST,), SystemClock())
        async with serving(
            admission, certificates, cluster, ServerSettings(HOST, 0), registration
        ) as server:
            yield server.port

    @asynccontextmanager
    async def followed(self, cluster, transport, clock, view):
        """Say what it stores, beginning where the history ends; gives the reflectors by kind."""
        known = defaultdict(dict)
        for one in view.objects.values():
            known[one.kind][one.uid] = one.version
        more = (WORKLOADS["ReplicaSet"], NODES, PODS) if self.follows_pods else ()
        found = {
            # Pods have a list fact of their own, which names no kind; nobody waits for one of nodes or namespaces.
            (POD if source is PODS else source.kind or source.name): Reflector(
                source, cluster, transport, clock, name=self.cluster, known=known[source.kind]
            )
            for source in (NAMESPACES, BUSINESS_QUOTAS, WORKLOADS["Deployment"], WORKLOADS["Job"], *more)
        }  # fmt: skip
        async with AsyncExitStack() as stack:
            for reflector in found.values():
                await stack.enter_async_context(beside(reflector.run()))
            yield found

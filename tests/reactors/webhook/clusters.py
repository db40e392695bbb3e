"""A real API server that asks a webhook of the test, registered by the product's own adapter."""

import asyncio
import contextlib

from bus.kube.client import Access, connect
from bus.kube.kinds import GOVERNED
from reactors.webhook import Answer, Application
from reactors.webhook.failure import closed_for
from reactors.webhook.registration import PATH, RegistrationSettings, configuration
from tests.reactors.webhook.serving import serving

DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
OWN_NAMESPACE = "bursar"


class Admission:
    """The handler: keeps what it was asked, and answers what the test says."""

    def __init__(self):
        self.asked = []
        self.answer = Answer(True)
        #: An awaitable function of the review, instead of `answer`.
        self.decide = None

    async def handle(self, review):
        self.asked.append(review)
        return self.answer if self.decide is None else await self.decide(review)

    def of(self, resource, subresource="", name=None):
        """The reviews of a resource so far."""
        return [
            review
            for review in self.asked
            if (review.resource, review.subresource) == (resource, subresource)
            and name in (None, review.name)
        ]


class Registered:
    """What :func:`registered` gives. Requests run in threads, as the webhook needs the loop."""

    def __init__(self, plane, webhook, admission, app):
        self.plane = plane
        self.webhook = webhook
        self.admission = admission
        self.app = app

    async def request(self, *args, **options):
        return await asyncio.to_thread(self.plane.api.request, *args, **options)

    async def kubectl(self, *args, **options):
        return await asyncio.to_thread(self.plane.kubectl, *args, **options)

    async def create(self, namespace, item, query=""):
        path = DEPLOYMENTS.format(namespace) + query
        return await self.request("POST", path, item)


@contextlib.asynccontextmanager
async def registered(folder, plane, *, deadline_seconds=2.0, client_ca=None, **settings):
    """Returns when the API server asks the webhook; it is forgotten again afterwards."""
    admission = Admission()
    charged = {(kind.group, kind.resource) for kind in GOVERNED}
    app = Application(admission.handle, closed_for(charged), deadline_seconds=deadline_seconds)
    cluster = await connect(Access(str(plane.kubeconfig)))
    try:
        async with serving(folder, app, client_ca=client_ca) as webhook:
            found = Registered(plane, webhook, admission, app)
            told = RegistrationSettings(OWN_NAMESPACE, url=webhook.url, **settings)

            async def tell(bundle):
                await cluster.apply(PATH, configuration(told, GOVERNED, bundle))

            webhook.tell = tell
            await tell(webhook.bundles[-1])
            await _heard(found)
            admission.asked.clear()
            yield found
            await asyncio.to_thread(plane.api.request, "DELETE", PATH)
    finally:
        await cluster.close()


async def _heard(found):
    """Until the API server has read the configuration, the one before may still be asked."""
    async with asyncio.timeout(20):
        while not found.admission.asked:
            await found.create("default", deployment("probe"), "?dryRun=All")
            await asyncio.sleep(0.1)


def deployment(name, *, replicas=1, **metadata):
    """A Deployment of one small container."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "service"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def pod(name, **metadata):
    """A Pod of one small container."""
    spec = {"containers": [{"name": "main", "image": "service"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }

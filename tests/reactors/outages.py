"""A bus that is away, and what a webhook answers meanwhile."""

import asyncio

import msgspec

from bus.errors import BusUnavailableError
from bus.memory import MemoryTransport
from reactors.admitting import failing
from reactors.webhook.application import Application

SCOPE = {
    "type": "http", "method": "POST", "path": "/admit", "headers": [(b"content-type", b"application/json")],
}  # fmt: skip


class Away(MemoryTransport):
    """A bus that hangs, is away, or stores once it is `opened`, while `gate` says so."""

    def __init__(self):
        super().__init__()
        self.gate = ""
        self.opened = asyncio.Event()

    async def publish(self, events, *, expect=None):
        if self.gate == "hangs":
            await asyncio.Event().wait()
        if self.gate == "away":
            raise BusUnavailableError(reason="a test")
        if self.gate == "late":
            await self.opened.wait()
        return await super().publish(events, expect=expect)


def body(object, operation="CREATE", old=None):
    request = {
        "uid": "r1", "operation": operation, "namespace": "ns", "name": object["metadata"]["name"],
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "userInfo": {"username": "amy"}, "object": object, "oldObject": old, "dryRun": False,
    }  # fmt: skip
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )


async def answered(cluster, raw, *, is_shadow=False):
    """The response of a webhook with a deadline of 0.2 s."""
    failure = failing(cluster.admission, is_shadow=is_shadow)
    application = Application(cluster.admission.handler, failure, deadline_seconds=0.2)
    return await response(application, raw)


async def response(application, raw):
    """The response of a webhook to one body."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message):
        sent.append(message)

    await application(SCOPE, receive, send)
    return msgspec.json.decode(sent[-1]["body"])["response"]


async def late(cluster, raw):
    """The response to a review whose decision is stored after the deadline."""
    cluster.transport.gate = "late"
    response = await answered(cluster, raw)
    cluster.transport.gate = ""
    cluster.transport.opened.set()
    await cluster.settled()
    return response

"""Bytes that a real API server keeps as a tenant wrote them, and strict readers refuse: the objects are followed all the same."""

import asyncio
import http.client
import json
from contextlib import closing

import pytest

from bus.clock import SystemClock
from bus.kube.client import Access, connect
from bus.kube.watch import records
from bus.kube.watch.contract import ReflectorSettings
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.sources.catalogue import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.bus.kube.watch.odd_bytes import PARAMETERS, written

pytestmark = pytest.mark.kube

REQUESTS = [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 3}}]
DEVICES = "/apis/resource.k8s.io/v1"
#: Objects, as an API server takes no other parameters, and no more of their bytes.
OBJECTS = {name: b'{"x":%b}' % odd for name, odd in PARAMETERS.items() if len(odd) < 10_000} | {
    "1,500 objects": b'{"a":' * 1_500 + b"1" + b"}" * 1_500,
    "4,000 arrays": b'{"a":' + b"[" * 4_000 + b"]" * 4_000 + b"}",
}


def is_made(plane, path, content):
    """Whether the API server makes an object of these bytes. Some numbers end its connection, others have it refuse them."""
    with closing(plane.api._connect(30)) as connection:
        connection.request("POST", path, content, plane.api._headers("application/json"))
        try:
            answer = connection.getresponse()
        except http.client.RemoteDisconnected:
            return False
        said = answer.read()
    assert answer.status in (201, 400, 422), said[:500]
    return answer.status == 201


def spec(odd):
    config = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": "@"}}]
    return {"devices": {"requests": REQUESTS, "config": config}}


def made(plane, namespace, prefix):
    """A claim and a template for each variant that the API server takes; their names."""
    names = set()
    for number, odd in enumerate(OBJECTS.values()):
        name = f"{prefix}-{number}"
        kinds = {"resourceclaims": spec(odd), "resourceclaimtemplates": {"spec": spec(odd)}}
        bodies = [
            (kind, written({"metadata": {"name": name}, "spec": inner}, odd))
            for kind, inner in kinds.items()
        ]
        kept = [
            is_made(plane, f"{DEVICES}/namespaces/{namespace}/{kind}", raw) for kind, raw in bodies
        ]
        assert len(set(kept)) == 1
        names |= {name} if kept[0] else set()
    return names


class Following:
    """The reflector of one source of a real API server, and what it published of a namespace."""

    def __init__(self, source, cluster, namespace):
        self.transport, self.namespace = MemoryTransport(), namespace
        settings = ReflectorSettings(linger_seconds=0.0, apart_seconds=0.0)
        self.reflector = Reflector(
            source, cluster, self.transport, SystemClock(), settings=settings
        )
        self.task = asyncio.create_task(self.reflector.run())

    def bodies(self, change):
        """What was published, by name."""
        events = [one for one in self.transport.events if one.type.endswith(change)]
        found = [json.loads(one.body) for one in events]
        return {one["name"]: one for one in found if one.get("namespace") == self.namespace}

    async def until(self, change, names):
        """Waits until all of these were published."""
        async with asyncio.timeout(60):
            while not names <= self.bodies(change).keys():
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.05)


async def test_odd_bytes_of_a_tenant_hide_no_claim_and_no_template(plane, namespace):
    path = f"{DEVICES}/namespaces/{namespace}/resourceclaims"
    listed = await asyncio.to_thread(made, plane, namespace, "listed")
    cluster = await connect(Access(str(plane.kubeconfig)))
    both = [
        Following(one, cluster, namespace) for one in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
    ]
    try:
        for one in both:
            await one.until("observed", listed)
        watched = await asyncio.to_thread(made, plane, namespace, "watched")
        for one in both:
            await one.until("observed", watched)
        bare = await cluster.page(path, limit=0, metadata_only=True)
        found = [await cluster.get(f"{path}/{name}") for name in sorted(watched)]
        await asyncio.to_thread(plane.api.request, "DELETE", path)
        await both[0].until("vanished", listed | watched)
    finally:
        for one in both:
            one.task.cancel()
        await asyncio.gather(*(one.task for one in both), return_exceptions=True)
        await cluster.close()

    assert len(listed) == len(watched) >= 10
    for said in (said for one in both for said in one.bodies("observed").values()):
        assert said["requests"][0]["asks"] == [{"device_class": "gpu.nvidia.com", "count": 3}]
    assert len({records.version_of(one) for one in bare.items}) == len(listed | watched)
    assert [one["metadata"]["name"] for one in found] == sorted(watched)
    assert not any(one.reflector.state.refused for one in both)

"""Following kinds that may not be installed."""

import asyncio
import secrets

import pytest

from bus.clock import SystemClock
from bus.events.workloads import WorkloadObserved
from bus.kube.client import Access, connect
from bus.kube.watch.contract import (
    ClusterUnavailableError,
    NotInstalledError,
    ReflectorSettings,
    refusal,
)
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.sources.catalogue import NODES, PODS, SOURCES, WORKLOADS
from deploy.cli.status import _source
from deploy.runtime import watch
from deploy.settings.shape import Settings
from tests.bus.kube.watch.fakes import QUICK, FakeCluster, page

pytestmark = pytest.mark.simulated

TFJOB = {"metadata": {"uid": "u", "name": "n", "namespace": "ns", "resourceVersion": "7"}}
ABSENT = NotInstalledError(resource="tfjobs.kubeflow.org")


def test_a_kind_that_the_server_does_not_know_is_not_installed():
    assert isinstance(refusal(404, verb="list", resource="tfjobs.kubeflow.org"), NotInstalledError)
    assert isinstance(refusal(503, verb="list", resource="pods"), ClusterUnavailableError)


@pytest.mark.parametrize(
    ("mode", "source", "is_prompt"),
    [("on", PODS, True), ("shadow", PODS, False), ("off", PODS, False), ("on", NODES, False)],
)
def test_pods_are_heard_of_sooner_where_they_wait_for_us(tmp_path, mode, source, is_prompt):
    settings = Settings(data=tmp_path, scheduling={"mode": mode}, cluster={"relist_seconds": 70})
    found = watch.paced(settings, source)
    usual = ReflectorSettings().linger_seconds

    assert found.linger_seconds == (watch.PROMPT_SECONDS if is_prompt else usual)
    assert found.relist_seconds == 70


async def followed(monkeypatch, source, pages, until):
    """The state of a source, once it is as wanted."""
    monkeypatch.setattr(watch, "ABSENT_SECONDS", 0.01)
    monkeypatch.setattr(watch, "DENIED_SECONDS", 0.01)
    cluster, transport = FakeCluster(pages), MemoryTransport()
    reflector = Reflector(source, cluster, transport, SystemClock(), settings=QUICK)
    task = asyncio.create_task(watch._follow(source, reflector))
    try:
        async with asyncio.timeout(5):
            while not until(reflector.state, cluster):
                await asyncio.sleep(0.005)
    finally:
        task.cancel()
    return reflector.state


async def test_a_custom_kind_that_is_not_installed_is_no_trouble_and_is_looked_for_again(
    monkeypatch,
):
    state = await followed(monkeypatch, WORKLOADS["TFJob"], [ABSENT], lambda _, c: len(c.asked) > 2)

    assert (True, "") == (state.is_absent, state.trouble)
    told = _source("tfjobs", watch.states({"t": state})["t"])
    assert told.startswith("tfjobs: not installed; waits until the cluster serves it, looked")


async def test_a_custom_kind_is_followed_once_it_is_installed(monkeypatch):
    pages = [ABSENT, ABSENT, page("9", TFJOB)]
    state = await followed(monkeypatch, WORKLOADS["TFJob"], pages, lambda state, _: state.published)

    assert (False, "") == (state.is_absent, state.trouble)


async def test_pods_that_the_server_does_not_know_are_trouble(monkeypatch):
    state = await followed(monkeypatch, PODS, [ABSENT], lambda _, c: len(c.asked) > 2)

    assert "tfjobs.kubeflow.org" in state.trouble


def definition():
    """Any object at all is a TFJob of this cluster."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "tfjobs", "singular": "tfjob", "kind": "TFJob", "listKind": "TFJobList"}
    spec = {"group": "kubeflow.org", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "tfjobs.kubeflow.org"}, "spec": spec}


async def workloads_said(transport):
    events = [one async for batch in transport.read(after=0, live=False) for one in batch]
    observed = [one for one in events if one.type == WorkloadObserved.wire_type]
    return [WorkloadObserved.read(one) for one in observed]


@pytest.mark.kube
async def test_a_real_server_says_when_a_custom_kind_is_installed(own_plane, monkeypatch):
    monkeypatch.setattr(watch, "ABSENT_SECONDS", 0.2)
    cluster, transport = await connect(Access(str(own_plane.kubeconfig))), MemoryTransport()
    reflector = Reflector(WORKLOADS["TFJob"], cluster, transport, SystemClock(), settings=QUICK)
    task = asyncio.create_task(watch._follow(WORKLOADS["TFJob"], reflector))
    post = own_plane.api.request
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": 1.5}}}
    roles = {"Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}
    try:
        async with asyncio.timeout(60):
            while not reflector.state.is_absent:
                await asyncio.sleep(0.05)
            crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await asyncio.to_thread(post, "POST", crds, definition())
            while reflector.state.is_absent:
                await asyncio.sleep(0.05)
            job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"}
            job |= {"metadata": {"name": secrets.token_hex(4)}, "spec": {"tfReplicaSpecs": roles}}
            path = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
            await asyncio.to_thread(post, "POST", path, job)
            while not (seen := await workloads_said(transport)):
                await asyncio.sleep(0.05)
    finally:
        task.cancel()
        await cluster.close()

    assert {"requests.cpu": 3000, "limits.cpu": 3000} == seen[0].demand


@pytest.mark.parametrize(
    ("kind", "listed"),
    [("TFJob", ["tfjobs"]), ("Pod", ["pods"]), ("ElasticQuota", ["elasticquotas"]), ("Other", [])],
)
def test_a_kind_that_something_waits_for_is_listed(kind, listed):
    class Asked:
        def __init__(self, name):
            self.name = name

        def relist(self, reason):
            assert reason == "settle"
            found.append(self.name)

    found = []
    reflectors = {source.name: Asked(source.name) for source in SOURCES}
    watch.Following(None, {}, reflectors).relist(kind)

    assert found == listed


def test_a_kind_that_is_installed_later_is_found_within_15_seconds():
    """A look and its answer; the look itself is tried on a real server above, with a shorter time between two."""
    assert watch.ABSENT_SECONDS <= 10

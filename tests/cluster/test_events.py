"""A refusal on a real API server: `kubectl get events` shows it, and a repeated one is a series of the same Event."""

import json

import pytest

from bus.kube.client import Access, connect
from projections.quota_trees import Tree
from reactors.effectors.events import Recorder
from tests.reactors.cluster import START_US
from tests.reactors.effectors.written import World
from tests.scenario import Clock

pytestmark = pytest.mark.kube


@pytest.fixture
async def cluster(plane):
    opened = await connect(Access(str(plane.kubeconfig)))
    yield opened
    await opened.close()


async def test_kubectl_shows_a_refusal_and_how_often_it_came(plane, cluster, namespace):
    world = World()
    world.clock = Clock(START_US)
    world.recorder = Recorder(cluster, world.clock, Tree, instance="host-1")
    for _ in range(2):
        world.refuse(namespace=namespace)
        await world.recorder.work()
    world.refuse(namespace=namespace)
    world.clock.after(60)
    await world.recorder.work()

    (event,) = json.loads(plane.kubectl("get", "events", "-n", namespace, "-o", "json"))["items"]

    assert world.recorder.counts == {"written": 2}
    assert (event["reason"], event["type"], event["series"]["count"]) == ("OverQuota", "Warning", 3)
    assert event["involvedObject"]["name"] == "web"
    assert event["message"].startswith("quota 'team': limits.cpu asks for 2 more")

"""Queues beside a real API server, real controllers and simulated nodes: what is created at once starts in its turn."""

import asyncio
from collections import Counter

import pytest

from bus.events.admissions import AdmissionDecided, entries
from bus.memory import MemoryTransport
from tests.acceptance.queueing import queued
from tests.cluster import build
from tests.cluster.plane import ControlPlane

pytestmark = pytest.mark.kube

JOBS = 200
ROOM = 50


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """Its webhooks are for a whole cluster, so not the shared one."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    with ControlPlane(tmp_path_factory.mktemp("plane")) as running:
        running.create_nodes(4, cpu="200")
        yield running


async def test_two_hundred_jobs_start_once_each_and_never_more_than_fit(plane, tmp_path):
    transport = MemoryTransport()
    async with queued(plane, tmp_path, transport) as site:
        await site.make_quota("team", ROOM, order="BackFill")
        made = await asyncio.gather(
            *(site.create("default", f"job-{n}", seconds=1) for n in range(JOBS))
        )
        assert all(one["spec"]["suspend"] for one in made)
        most = 0
        async with asyncio.timeout(100):
            while not all(ended(one) for one in await site.jobs("default")):
                journals = site.admission.journals
                most = max(most, journals.tree("biz/team").nodes["team"].used("limits.cpu"))
                await asyncio.sleep(0.05)

        released = [f.name for f in decided(transport) if f.reason == "released"]
        starts = Counter(name for name in site.cluster.patches if name.startswith("job-"))
        assert sorted(released) == sorted(f"job-{n}" for n in range(JOBS))
        assert 0 < most <= ROOM * 1000
        assert JOBS == sum(starts.values()), starts.most_common(3)


def ended(job):
    return any(c["type"] == "Complete" for c in job["status"].get("conditions", ()))


def decided(transport):
    said = [one for event in transport.events for one in entries(event)]
    return [AdmissionDecided.read(one) for one in said if one.type == AdmissionDecided.wire_type]

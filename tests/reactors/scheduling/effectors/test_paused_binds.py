"""A pause holds what was decided, also what is queued or in work already, and who resumes has it bound once."""

import asyncio

import pytest

from bus.events.policies import PauseChanged
from reactors.scheduling.effectors import binder
from tests.factories import said
from tests.reactors.scheduling.bindable import Process, Server
from tests.reactors.scheduling.ganging import Ganging

pytestmark = pytest.mark.simulated


class Slow(Server):
    """Counts what is asked; the first bind takes longer than the others."""

    def __init__(self, cluster):
        super().__init__(cluster, None)
        self.troubles, self.asked, self.resumes = 0, [], False

    async def bind(self, namespace, pod, **fields):
        self.asked.append(pod)
        if len(self.asked) == 1:
            await self.cluster.say(pause(self.cluster, is_paused=True))
            if self.resumes:
                await self.cluster.say(pause(self.cluster, is_paused=False))
        await super().bind(namespace, pod, **fields)


def pause(cluster, *, is_paused):
    fact = PauseChanged(is_paused=is_paused, author="ada", reason="test")
    cluster.version += 1
    return said(fact, key="reactors", id=f"pause/{cluster.version}", at=cluster.at())


@pytest.fixture
async def cluster():
    found = Ganging()
    await found.begin(nodes=1)
    await found.say(*(found.pod(name, cpu="1") for name in "abc"))
    assert len(found.outstanding()) == 3
    return found


async def test_a_pause_holds_placements_that_are_queued_already(cluster, monkeypatch):
    monkeypatch.setattr(binder, "AT_ONCE", 1)
    server = Slow(cluster)
    process = Process(cluster, server)
    running = asyncio.create_task(process.run(60))
    await asyncio.sleep(20)
    before = list(server.asked)
    await cluster.say(pause(cluster, is_paused=False))
    await running

    assert len(before) == 1
    assert sorted(server.asked) == ["a", "b", "c"]
    assert sorted(server.nodes) == ["a", "b", "c"]


async def test_a_pause_that_ends_at_once_leaves_nothing_behind(cluster, monkeypatch):
    monkeypatch.setattr(binder, "AT_ONCE", 1)
    server = Slow(cluster)
    server.resumes = True
    await Process(cluster, server).run(30)

    assert sorted(server.asked) == ["a", "b", "c"]

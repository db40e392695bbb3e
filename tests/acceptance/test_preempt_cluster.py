"""Preemption on a real API server: who is less important is evicted once, and the pod gets the room that was held for it."""

import asyncio

import pytest

from bus.events.decisions import EffectSettled, Evict
from bus.memory import MemoryTransport
from reactors.scheduling.settings import SchedulingPolicy
from tests.acceptance import binding
from tests.acceptance.binding import PODS_PATH
from tests.cluster import build
from tests.cluster.plane import ControlPlane
from tests.scenario import FAST

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(120)]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def plane(tmp_path):
    """Nobody else binds or simulates."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    none = {"controllers": False, "scheduler": False, "simulator": False}
    with ControlPlane(tmp_path / "plane", **none) as running:
        yield running


def important(name, cpu):
    found = binding.pod(name, cpu, 1)
    found["spec"]["priorityClassName"] = "high"
    return found


class Scene(binding.Scene):
    """Pods by name."""

    async def until(self, holds):
        """The pods as soon as they are so."""
        async with asyncio.timeout(80):
            while not holds(found := {p["metadata"]["name"]: p for p in await self.pods()}):
                await asyncio.sleep(0.1)
        return found

    async def end(self, name):
        """There is no kubelet that does."""
        await self.request("DELETE", f"{PODS_PATH}/{name}?gracePeriodSeconds=0")


def bound(pods):
    return [name for name, pod in pods.items() if pod["spec"].get("nodeName")]


def going(pods):
    return [name for name, pod in pods.items() if pod["metadata"].get("deletionTimestamp")]


async def test_who_is_less_important_goes_and_the_room_is_held(plane):
    """Between the two pods that have to go there is room that another one would take at once, were it not held.

    The process is killed wherever it decides and evicts.
    """
    binding.schedulable(plane, 1, cpu="4", memory="16Gi")
    scene, transport = Scene(plane), MemoryTransport()
    await scene.request("POST", CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    policy = SchedulingPolicy(preemption="on", pace=FAST)
    async with binding.watched(plane, transport) as cluster:
        async with binding.killed_again_and_again(
            lambda: binding.scheduling(transport, cluster, policy=policy), binding.PREEMPTING
        ) as left:
            await scene.create(binding.pod(name, "2", 1) for name in ("low0", "low1"))
            await scene.until(lambda pods: len(bound(pods)) == 2)
            await scene.create([important("high", "4")])
            (first,) = going(await scene.until(going))
            # Of so few pods one is evicted in five minutes; the other one is ended by its owner.
            await scene.until(lambda _: not left)
            await scene.end(first)
            await scene.create([binding.pod("late", "2", 1)])
            between = await scene.until(lambda pods: pods["late"]["status"].get("conditions"))
            (second,) = {"low0", "low1"} - {first}
            await scene.end(second)
            after = await scene.until(lambda pods: pods["high"]["spec"].get("nodeName"))
    decided = [Evict.read(e) for e in transport.events if e.type == Evict.wire_type]
    settled = [EffectSettled.read(e) for e in transport.events if e.type == EffectSettled.wire_type]

    assert (between.keys(), bound(between)) == ({second, "high", "late"}, [second])
    assert bound(after) == ["high"]
    assert {(one.target.name, one.beneficiary) for one in decided} == {(first, "Pod default/high")}
    assert ({one.result for one in settled}, left) == ({"done"}, [])

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


async def test_who_is_less_important_goes_and_the_room_is_held(plane):
    async def request(*args):
        return await asyncio.to_thread(plane.api.request, *args)

    async def until(holds):
        async with asyncio.timeout(60):
            while not holds(
                {p["metadata"]["name"]: p for p in (await request("GET", PODS_PATH))["items"]}
            ):
                await asyncio.sleep(0.1)

    binding.schedulable(plane, 1, cpu="4", memory="16Gi")
    await request("POST", CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    transport, policy = MemoryTransport(), SchedulingPolicy(preemption="on", pace=FAST)
    async with binding.watched(plane, transport) as cluster:
        async with binding.scheduling(transport, cluster, policy=policy):
            await request("POST", PODS_PATH, binding.pod("low", "3", 1))
            await until(lambda pods: pods["low"]["spec"].get("nodeName"))
            await request("POST", PODS_PATH, important("high", "3"))
            await request("POST", PODS_PATH, binding.pod("late", "3", 1))
            await until(lambda pods: pods["low"]["metadata"].get("deletionTimestamp"))
            # There is no kubelet that ends it.
            await request("DELETE", f"{PODS_PATH}/low?gracePeriodSeconds=0")
            await until(lambda pods: pods["high"]["spec"].get("nodeName"))
            await until(lambda pods: "low" not in pods and pods["late"]["status"].get("conditions"))
            late = await request("GET", f"{PODS_PATH}/late")
    decided = [Evict.read(e) for e in transport.events if e.type == Evict.wire_type]
    settled = [EffectSettled.read(e) for e in transport.events if e.type == EffectSettled.wire_type]

    assert [(one.target.name, one.beneficiary) for one in decided] == [("low", "Pod default/high")]
    assert [one.result for one in settled] == ["done"]
    assert "nodeName" not in late["spec"]

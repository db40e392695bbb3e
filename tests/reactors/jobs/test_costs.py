"""What is lost where a pod is begun again, by its requests, stands in the decision that deletes it."""

import pytest

from bus.clock import SECOND_US
from bus.events.decisions import DeleteReplica
from projections.cluster import ClusterState, Pod
from projections.cluster.held import held_milli
from reactors.engine.verify import rederive
from reactors.jobs.decide import lost
from reactors.jobs.reactor import reactor
from tests import factories as said
from tests.factories import CLUSTER
from tests.reactors.jobs.scene import EXIT, begun

ASKS = {"requests.cpu": 2_000, "requests.nvidia.com/gpu": 4, "limits.nvidia.com/gpu": 4}
HOUR_US = 3600 * SECOND_US


def pod(phase="Running", node="a", demand=None, seen_us=0):
    asks = ASKS if demand is None else demand
    return Pod("u", "ns", "p", "1", seen_us, phase, node, False, 0, 0, "", None, {}, {}, asks)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod(), (3600, 7_200_000, 14_400_000)),
        (pod("Failed", seen_us=60 * SECOND_US), (60, 120_000, 240_000)),
        (pod("Failed", seen_us=2 * HOUR_US), (3600, 7_200_000, 14_400_000)),
        (pod(demand={}), (3600, 0, 0)),
        (pod(demand={"requests.amd.com/gpu": 1, "requests.x/gpu-memory": 9}), (3600, 0, 3_600_000)),
        (pod(demand={"requests.koordinator.sh/gpu": 150}), (3600, 0, 5_400_000)),
        (pod(demand={"requests.x/gpu-core": 50, "requests.x/gpu-memory-ratio": 80}), (3600, 0, 1_800_000)),
        (pod(demand={"requests.kubernetes.io/gpu": 2**63 - 1}), (3600, 0, 0)),
        (pod(demand={"requests.cpu": 2**63 - 1}), (3600, 2**63 - 1, 0)),
        (pod(node=""), ()),
    ],
    ids=["runs", "failed", "seen late", "asks for nothing", "another vendor", "hundredths", "part", "absurd", "all", "had no node"],
)  # fmt: skip
def test_a_pod_loses_what_it_held(found, expected):
    assert tuple(lost(found, held_milli(ClusterState(), found), HOUR_US).values()) == expected


def test_a_clock_that_went_back_loses_nothing():
    assert lost(pod(), 0, -HOUR_US)["held_s"] == 0


async def test_the_decision_says_it_and_is_derived_again():
    scene = await begun(**EXIT)
    await scene.see_pod(1, "Failed", exits={"tensorflow": 137}, cpu="2", gpu=4)
    (decision,) = scene.decisions(DeleteReplica)
    held_s = decision.numbers["held_s"]

    assert decision.numbers["lost_cpu_milli_s"] == 2_000 * held_s
    assert decision.numbers["lost_gpu_milli_s"] == 4_000 * held_s
    assert not rederive(lambda: iter(scene.transport.events), [reactor], CLUSTER).mismatches


async def test_a_slice_of_a_card_loses_its_part_of_the_card():
    scene = await begun(**EXIT)
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "nvidia.com/mig.strategy": "single",
    }
    await scene.say(said.node_observed(at=scene.at(), further_labels=labels))
    await scene.see_pod(1, "Failed", exits={"tensorflow": 137}, gpu=4, scheduled=scene.at() - 60)
    (decision,) = scene.decisions(DeleteReplica)

    assert decision.numbers["lost_gpu_milli_s"] == 500 * decision.numbers["held_s"] > 0

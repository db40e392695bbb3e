"""Milli-cards of a pod in the state of the cluster: those that the ledger charges."""

import pytest

from bus.events import VOCABULARY
from bus.events.devices import Device, DeviceAsk, DeviceRequest
from bus.events.pods import Owner
from bus.events.vocabulary import read
from projections.accounts import accounts
from projections.cluster import ClusterState
from projections.cluster.held import held_milli
from projections.pod_runs.queries import held_at
from tests import factories as given
from tests.projections.devices.claimed import claim_observed, slice_observed
from tests.projections.ledger import folded

A100 = "NVIDIA-A100-SXM4-40GB"
MIG = {"nvidia.com/gpu.product": f"{A100}-MIG-1g.5gb", "nvidia.com/mig.strategy": "single"}
TIMES = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
GPU = {"nvidia.com/gpu": "2"}
HAMI = {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,10240,0:;"}
REGISTER = {"hami.io/node-nvidia-register": "GPU-a,10,40960,100,A100,0,true:"}
OWNED = {"owner": Owner("Pod", "p", "p"), "is_generated": True}
SLICE = {"type": "mig", "profile": "1g.5gb", "parentUUID": "GPU-0", "productName": A100}
COUNTED = Device("d", attributes={"productName": A100}, consumes={"c": {"memory": "10Gi"}})


def node(version=1, at=0, **fields):
    return given.node_observed(version=version, at=at, model=A100, **fields)


def pod(requests, at=3, **fields):
    return given.pod_observed("p", at=at, created=2, resources=given.requesting(requests), **fields)


WORLDS = {
    "whole": (2_000, [node(), pod(GPU)]),
    "another vendor": (2_000, [pod({"amd.com/gpu": "2"})]),
    "koordinator": (500, [pod({"koordinator.sh/gpu-core": "50"})]),
    "MIG by label": (250, [node(further_labels=MIG), pod(GPU)]),
    "MIG by name": (125, [node(allocatable={"nvidia.com/mig-1g.5gb": "7"}), pod({"nvidia.com/mig-1g.5gb": "1"})]),
    "time slices": (500, [node(further_labels=TIMES), pod(GPU)]),
    "labels away": (250, [node(further_labels=MIG), node(2, 1), pod(GPU)]),
    "a node made again": (2_000, [node(further_labels=MIG), node(2, 1, uid="n2"), pod(GPU)]),
    "AMD": (125, [node(further_labels={"amd.com/compute-partition": "CPX"}), pod({"amd.com/gpu": "1"})]),
    "KAI": (500, [node(), pod({}, card_texts={"gpu-fraction": "0.5"})]),
    "HAMi": (250, [node(card_texts=REGISTER), pod({"nvidia.com/gpu": "1"}, card_texts=HAMI)]),
    "slice by claim": (
        125,
        [
            slice_observed(Device("d", attributes=SLICE)),
            claim_observed("g", "d", stamp=2, at=2, **OWNED),
            pod({}, claims=("g",), claim_templates=("t",)),
        ],
    ),
    "counters by claim": (
        250,
        [
            slice_observed(COUNTED, counters={"c": {"memory": "40Gi"}}),
            claim_observed("g", "d", stamp=2, at=2, **OWNED),
            pod({}, claims=("g",), claim_templates=("t",)),
        ],
    ),
    "extended by claim": (
        125,
        [
            slice_observed(Device("d", attributes=SLICE)),
            claim_observed("g", "d", stamp=2, at=2, **OWNED),
            pod({"nvidia.com/gpu": "1"}, claims=("g",), claimed=("nvidia.com/gpu",)),
        ],
    ),
    "device unseen": (
        1_000,
        [claim_observed("g", "d", stamp=2, at=2, **OWNED), pod({}, claims=("g",), claim_templates=("t",))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_a_pod_holds_the_milli_cards_that_the_ledger_charges(name):
    milli, events = WORLDS[name]
    events = given.numbered(events)
    state, store = ClusterState(), folded(events)
    for event in events:
        state.apply(read(event, VOCABULARY), event)
    (account,) = accounts(store.select, as_of_s=given.START_S + 60)

    assert held_milli(state, state.pods["p"]) == milli == account.holdings[-1].gpu_milli
    assert held_at(store.select, "p", given.us(30))[1] == milli
    assert held_at(store.select, "p", given.us(-30))[1] == milli
    assert held_at(store.select, "q", given.us(30)) is None


def test_a_claim_without_an_allocation_counts_as_the_most_that_it_may_be_given():
    requests = (DeviceRequest("gpu", (DeviceAsk("gpu.nvidia.com", count=2),)),)
    claim = claim_observed("g", requests=requests, **OWNED)
    events = given.numbered([claim, pod({}, claims=("g",), claim_templates=("t",))])
    state = ClusterState()
    for event in events:
        state.apply(read(event, VOCABULARY), event)

    assert held_milli(state, state.pods["p"]) == 2_000

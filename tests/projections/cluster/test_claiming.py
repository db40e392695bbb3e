"""What rows ask for by claims of devices is a function of the set of facts, whatever their order."""

from random import Random

import pytest

from bus.events import VOCABULARY
from bus.events.devices import (
    Allocation,
    Device,
    DeviceAsk,
    DeviceClassObserved,
    DeviceClassVanished,
    DeviceRequest,
    DeviceResult,
    ResourceClaimObserved,
    ResourceClaimTemplateObserved,
    ResourceClaimTemplateVanished,
    ResourceClaimVanished,
    ResourceSliceObserved,
)
from bus.events.vocabulary import read
from projections.cluster import ClusterState
from tests import factories as f

GPU = "gpu.nvidia.com"


def said(fact, at):
    return f.said(fact, key=fact.uid, id=f"{fact.wire_type}/{fact.uid}/{at}", at=at)


def template(uid, name, at, count, device_class=GPU):
    requests = (DeviceRequest("g", (DeviceAsk(device_class, count=count),)),)
    fact = ResourceClaimTemplateObserved(
        uid=uid, namespace="ns", name=name, resource_version=str(at), requests=requests
    )
    return said(fact, at)


def claim(uid, at, count, *, pod=None, given=None, fact=ResourceClaimObserved, device_class=GPU):
    results = tuple(DeviceResult("g", GPU, "n1", one) for one in given or ())
    seen = fact(
        uid=uid, namespace="ns", name=uid, resource_version=str(at), is_generated=pod is not None,
        owner=f.owner(pod, "Pod") if pod else None,
        requests=(DeviceRequest("g", (DeviceAsk(device_class, count=count),)),),
        allocation=None if given is None else Allocation(results=results),
    )  # fmt: skip
    return said(seen, at)


def slice(at, uid, pool, sizes):
    """``sizes``: of each device in GiB."""
    devices = tuple(
        Device(f"gpu-{n}", capacity={"memory": f"{one}Gi"}) for n, one in enumerate(sizes)
    )
    fact = ResourceSliceObserved(
        uid=uid, name=uid, resource_version=str(at), driver=GPU, pool=pool, devices=devices
    )
    return said(fact, at)


def life():
    """Templates that are made again, pods with and without their claims, claims of their own, classes and a slice."""
    sizes = ((9, "s", "n1", "321"), (18, "s", "n1", "3214"), (19, "s2", "n2", "55"))
    gone = ResourceClaimTemplateVanished(uid="t1", namespace="ns", name="t", resource_version="14")
    served = DeviceClassObserved(
        uid="c", name="fast", resource_version="7", extended_name="example.com/gpu"
    )
    lost = DeviceClassVanished(uid="d", name="slow", resource_version="8")
    return [
        template("t1", "t", 1, 2),
        f.pod_observed("p", 2, 2, claim_templates=("t",)),
        f.pod_observed("q", 3, 3, claim_templates=("t", "u")),
        claim("p-g", 4, 2, pod="p"),
        claim("p-g", 5, 2, pod="p", given=("gpu-0", "gpu-1")),
        claim("own", 6, 3, device_class="quick"),
        said(served, 7),
        said(lost, 8),
        f.workload_observed("w", 10, 10, demand={"claims.template/t": 3}, per_replica={}),
        f.workload_observed("x", 11, 11, demand={"limits.example.com/gpu": 2}),
        claim("own", 12, 3, device_class="quick", given=("gpu-2",)),
        claim("own", 13, 3, device_class="quick"),
        said(gone, 14),
        template("t2", "t", 15, 5),
        claim("old", 16, 9),
        claim("old", 17, 9, fact=ResourceClaimVanished),
        claim("small", 20, 1, given=("gpu-2",)),
        *(slice(*one) for one in sizes),
    ]


def folded(events):
    state = ClusterState()
    for event in events:
        state.apply(read(event, VOCABULARY), event)
    return state


def known(state):
    return state.pods, state.workloads, state.device_claims, state.cards_seen


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_facts_gives_the_same_demand(seed):
    events = life() * 2
    Random(seed).shuffle(events)

    assert known(folded(events)) == known(folded(life()))


def test_rows_ask_for_what_is_known_of_their_claims():
    state = folded(life())
    devices = {uid: pod.asks.get(f"limits.dra/{GPU}") for uid, pod in state.pods.items()}

    # The other template of q was never seen.
    assert devices == {"p": 2, "q": 5}
    assert state.pods["q"].asks["claims.template/u"] == 1
    assert state.workloads["w"].ask.demand[f"limits.dra/{GPU}"] == 15
    assert state.workloads["w"].ask.demand["limits.gpu-memory"] == 15 * 5 * 2**30
    # What was given counts by its own size, whenever that was seen.
    assert state.workloads["small"].ask.demand["limits.gpu-memory"] == 2**30
    assert state.pods["p"].asks["limits.gpu-memory"] == (3 + 2) * 2**30
    assert state.workloads["x"].ask.demand["limits.dra/fast"] == 2
    assert state.workloads["x"].ask.demand["limits.example.com/gpu"] == 2
    # A claim of this class was given a card once.
    assert state.workloads["own"].ask.demand["limits.nvidia.com/gpu"] == 3
    assert "old" not in state.workloads

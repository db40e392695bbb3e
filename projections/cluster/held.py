"""The milli-cards of a pod on its node. The ledger's rule for MIG slices, shared cards and devices by claim. Pure.

Source: docs/devices.md.
"""

from __future__ import annotations

from functools import partial

import msgspec

from bus.charges import card_milli
from bus.events.devices import (
    DeviceClassObserved,
    DeviceClassVanished,
    DeviceResult,
    ResourceClaimState,
    ResourceClaimTemplateObserved,
    ResourceClaimTemplateVanished,
    ResourceSliceState,
)
from bus.events.nodes import NodeObserved, NodeVanished
from bus.events.vocabulary import Fact
from projections.cluster.rows import Pod
from projections.cluster.state import ClusterState
from projections.devices.requested import CardFacts, requested
from projections.devices.sizes import sized
from projections.devices.supply import COUNTERS, DEVICE, SuppliedDevice, supplied

#: The facts with an effect on a pod's milli-cards, besides those of pods and complete lists.
READS: tuple[type[Fact], ...] = (
    NodeObserved, NodeVanished, DeviceClassObserved, DeviceClassVanished, ResourceClaimState,
    ResourceClaimTemplateObserved, ResourceClaimTemplateVanished, ResourceSliceState,
)  # fmt: skip
_REQUESTS = "requests."
_facts = msgspec.json.Decoder(CardFacts).decode
_texts = msgspec.json.Decoder(dict[str, str]).decode


def held_milli(state: ClusterState, pod: Pod) -> int:
    """The milli-cards of a pod. A claim without an allocation counts as its largest possible one.

    A claim named directly by several pods belongs to none of them.
    """
    by_claim = _given_milli(state, pod)
    asks, claimed = (pod.asks, ()) if by_claim is None else (pod.demand, pod.claimed)
    requests = {
        key.removeprefix(_REQUESTS): n for key, n in asks.items() if key.startswith(_REQUESTS)
    }
    node = state.current_node(pod.node)
    found = requested(
        card_milli(requests),
        {},
        _facts(pod.cards) if pod.cards else None,
        claimed,
        _texts(node.cards) if node is not None and node.cards else {},
        pod.namespace,
    )
    parts = sum(part.gpu_milli for part in found.parts)
    return found.gpu_milli + parts + (by_claim or 0)


def _given_milli(state: ClusterState, pod: Pod) -> int | None:
    """The milli-cards of the devices allocated to a pod's claims; None while one of them has no allocation."""
    made, total = state.claiming.all_made(pod), 0
    if made is None:
        return None if pod.templates or pod.claimed else 0
    for claim in made:
        if claim.allocation is None:
            return None
        for result in claim.allocation.results:
            total += sized(result, partial(_supplied, state, result)).gpu_milli
    return total


def _supplied(
    state: ClusterState, result: DeviceResult, kind: str, name: str
) -> SuppliedDevice | None:
    """A device, or a set of counters, of the result's pool as its newest slices show it."""
    pool = (result.driver, result.pool)
    slices = [one for one in state.slices.values() if (one.driver, one.pool) == pool]
    for row in sorted(slices, key=lambda one: (-one.generation, one.uid)):
        counters = row.counters() if kind == COUNTERS else {}
        if name in counters:
            return SuppliedDevice(row.node, None, counters[name])
        devices = row.devices() if kind == DEVICE else ()
        for device in devices:
            if device.name == name:
                return supplied(device, devices, row.node)
    return None

"""Requests of pods as amounts of columns."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from projections.cluster import Pod
from reactors.scheduling.columns import cards
from reactors.scheduling.columns.device_requests import requested
from reactors.scheduling.columns.nodes import MOST

#: Most distinct demands kept as columns.
KNOWN_DEMANDS = 16_384

REQUESTS = "requests."


class ColumnRequest(msgspec.Struct, frozen=True, gc=False):
    """The requests of a demand as (column, amount), by name the ones offered by no node, and the cards."""

    demand: dict[str, int]
    amounts: list[tuple[int, int]]
    not_offered: dict[str, int]
    has_devices: bool
    cards: tuple[int, int, int]


class Requests:
    """The requests of pods, each demand read once. ``resources``: the column of each resource, while none is new."""

    def __init__(self, resources: Mapping[str, int]) -> None:
        self._resources = resources
        #: By the id of pods' demands, shared by many pods.
        self._known: dict[int, ColumnRequest] = {}

    def of(self, pod: Pod) -> ColumnRequest:
        """The request of a pod. A resource offered by no node has no column: tenants may use any name."""
        demand = pod.demand
        known = self._known.get(id(demand))
        if known is not None and known.demand is demand:
            return known
        found = ColumnRequest(demand, [], {}, bool(requested(demand)), cards.parts_of(pod))
        for key, amount in demand.items():
            if key.startswith(REQUESTS):
                name = key.removeprefix(REQUESTS)
                at = self._resources.get(name)
                if at is not None:
                    found.amounts.append((at, min(amount, MOST)))
                elif amount:
                    found.not_offered[name] = min(amount, MOST)
        if len(self._known) >= KNOWN_DEMANDS:
            self._known.clear()
        self._known[id(demand)] = found
        return found

    def clear(self) -> None:
        """Forget all requests after a change of the resources' columns."""
        self._known.clear()

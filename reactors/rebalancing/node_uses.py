"""The measured use of nodes against the thresholds of a pool: over- and underused nodes. Pure.

Percentages of thresholds become amounts of a node, truncated. With deviation they are distances from the mean use of the pool, of
which measured nodes count, cordoned ones too. Thresholds are of two kinds: of all pods, and of production pods. A resource without
any is not compared. Memory, and a resource with only the other kind of threshold, get the bound 100 %.

Source: koordinator-sh/koordinator, pkg/descheduler/framework/plugins/loadaware/utilization_util.go; docs/rebalancing.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.clock import SECOND_US
from bus.errors import QuantityError
from projections.cluster import ClusterState
from projections.cluster.loads import Amounts
from projections.cluster.rows import Node
from reactors.rebalancing.settings import Pool
from reactors.rebalancing.shape import NodeUse
from reactors.scheduling.plugins.load_aware import is_prod

CPU, MEMORY, PODS = "cpu", "memory", "pods"
#: By resource, nano-units in one unit.
_UNITS = {CPU: NANO // 1000, MEMORY: NANO, PODS: NANO}


class Bounds(msgspec.Struct, frozen=True):
    """By resource, the upper amounts of an underused node (low), and of a node within its bounds (high)."""

    low: dict[str, int]
    high: dict[str, int]
    prod_low: dict[str, int]
    prod_high: dict[str, int]


class MeasuredPool(msgspec.Struct, frozen=True):
    """The nodes of a pool with a fresh measurement, and the names of the others."""

    uses: dict[str, NodeUse]
    unmeasured: tuple[str, ...]
    bounds: dict[str, Bounds]


def measured_pools(
    state: ClusterState, pools: Sequence[Pool], at_us: int, metric_seconds: int
) -> list[MeasuredPool]:
    """The pools with the use of their nodes at a moment; a node belongs to the first pool selecting it."""
    left = sorted(state.current_nodes(), key=lambda one: one.name)
    found = []
    for pool in pools:
        mine = [one for one in left if _selects(pool, one)]
        left = [one for one in left if not _selects(pool, one)]
        uses = {one.name: _use(state, one, at_us - metric_seconds * SECOND_US) for one in mine}
        measured = {name: use for name, use in uses.items() if use is not None}
        unmeasured = tuple(name for name, use in uses.items() if use is None)
        found.append(MeasuredPool(measured, unmeasured, bounds_of(pool, measured.values())))
    return found


def bounds_of(pool: Pool, uses: Iterable[NodeUse]) -> dict[str, Bounds]:
    """The bounds of each node, by its name."""
    known = list(uses)
    names = dict.fromkeys((*pool.low, *pool.prod_low, MEMORY))
    means = {name: _mean([one.used for one in known], known, name) for name in names}
    prod = {name: _mean([one.prod for one in known], known, name) for name in names}
    found = {}
    for one in known:
        low, high = _amounts(pool, pool.low, pool.high, means, one, names)
        prod_low, prod_high = _amounts(pool, pool.prod_low, pool.prod_high, prod, one, names)
        found[one.name] = Bounds(low, high, prod_low, prod_high)
    return found


def overused(used: Mapping[str, int], high: Mapping[str, int]) -> dict[str, int]:
    """By resource, how much of the use is above the bound."""
    return {name: used[name] - most for name, most in high.items() if used[name] > most}


def is_underused(used: Mapping[str, int], low: Mapping[str, int]) -> bool:
    """Whether every resource is at or below its bound."""
    return all(used[name] <= most for name, most in low.items())


def weighted(used: Mapping[str, int], capacity: Mapping[str, int], weights: Mapping[str, int]) -> int:  # fmt: skip
    """The weighted mean of the used thousandths of each resource."""
    whole = sum(weights.values())
    if not whole:
        return 0
    shares = (
        weight * (min(used.get(name, 0), capacity[name]) * 1000 // capacity[name] if capacity[name] else 0)
        for name, weight in weights.items()
    )  # fmt: skip
    return sum(shares) // whole


def percent(used: Mapping[str, int], capacity: Mapping[str, int], name: str) -> int:
    """Percent of a resource, rounded to the nearest."""
    return round(100 * used[name] / capacity[name]) if capacity[name] else 0


def _selects(pool: Pool, node: Node) -> bool:
    labels = {**node.further_labels, **node.labels}
    return all(labels.get(key) == text for key, text in pool.node_selector.items())


def _use(state: ClusterState, node: Node, since_us: int) -> NodeUse | None:
    """The use of a node; None where its measurement is absent, incomplete, or no newer than ``since_us``."""
    load = state.load_of(node.name)
    if load is None or load.used is None or None in load.used or load.updated_us <= since_us:
        return None
    found = (state.pods[uid] for uid in sorted(state.index.on_node[node.name]))
    pods = tuple(one for one in found if not one.is_ended)
    measured = {
        one.uid: _measured(load.pods[key]) for one in pods if (key := f"{one.namespace}/{one.name}") in load.pods
    }  # fmt: skip
    prod = [one for one in pods if is_prod(one)]
    return NodeUse(
        node.name, node.unschedulable, {name: _capacity(node, name) for name in _UNITS},
        {**_measured(load.used), PODS: len(pods)},
        {
            **{name: sum(measured.get(one.uid, {}).get(name, 0) for one in prod) for name in (CPU, MEMORY)},
            PODS: len(prod),
        },
        pods, measured,
    )  # fmt: skip


def _measured(amounts: Amounts) -> dict[str, int]:
    cpu, memory = amounts
    return {CPU: cpu or 0, MEMORY: memory or 0, PODS: 1}


def _capacity(node: Node, name: str) -> int:
    try:
        return max(observed_quantity(node.allocatable[name]) // _UNITS[name], 0)
    except (KeyError, QuantityError):
        return 0


def _mean(used: Sequence[Mapping[str, int]], uses: Sequence[NodeUse], name: str) -> float:
    """The mean percentage of a resource over the nodes."""
    shares = [
        amounts[name] / one.capacity[name] * 100.0 if one.capacity[name] else 0.0
        for amounts, one in zip(used, uses, strict=True)
    ]
    return sum(shares) / len(shares) if shares else 0.0


def _amounts(
    pool: Pool, low: Mapping[str, float], high: Mapping[str, float], means: Mapping[str, float], use: NodeUse,
    names: Iterable[str],
) -> tuple[dict[str, int], dict[str, int]]:  # fmt: skip
    """The bounds of a node for the resources of the pool."""
    found: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for name in names:
        capacity = use.capacity[name]
        if not pool.deviation:
            shares = low.get(name, 100), high.get(name, 100)
        elif not low.get(name):
            shares = 100, 100
        else:
            mean = means[name]
            shares = max(mean - low[name], 0), min(mean + high[name], 100)
        for amounts, share in zip(found, shares, strict=True):
            amounts[name] = int(float(share) * 0.01 * float(capacity)) if share < 100 else capacity
    return found

"""LowNodeLoad: moves pods from nodes of high measured use to nodes of low use.

A node is a source once its use exceeds the bounds in enough rounds in a row. Its pods are proposed by production class, priority,
QoS class, use of exceeded resources and age. Proposals end once the node is within its bounds, or the room of the underused nodes
is spent. A second pass does the same for the use of production pods. As in Koordinator, pods moved by the first pass do not count
as production use of their new node in the second.

Source: koordinator-sh/koordinator, pkg/descheduler/framework/plugins/loadaware/low_node_load.go; docs/rebalancing.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from bus.clock import SECOND_US
from projections.cluster import ClusterState
from reactors.rebalancing.detector import Detector
from reactors.rebalancing.load_pass import LoadPass, Round, room
from reactors.rebalancing.node_uses import (
    MEMORY,
    Bounds,
    MeasuredPool,
    is_underused,
    measured_pools,
    overused,
)
from reactors.rebalancing.settings import LowNodeLoadSettings, Pool
from reactors.rebalancing.shape import NodeUse


class Classes(msgspec.Struct):
    """The measured nodes of a pool by their use. ``both``: underused by all pods, and by those of production."""

    low: list[NodeUse] = []
    high: list[NodeUse] = []
    prod_low: list[NodeUse] = []
    prod_high: list[NodeUse] = []
    both: list[NodeUse] = []

    @property
    def destinations(self) -> list[NodeUse]:
        """Underused nodes of any kind."""
        return [*self.low, *self.prod_low, *self.both]

    @property
    def sources(self) -> list[NodeUse]:
        """Overused nodes of either kind."""
        return [*self.high, *self.prod_high]


class LowNodeLoad:
    """Keeps a detector for each node over the observed rounds."""

    name: ClassVar[str] = "LowNodeLoad"

    def __init__(self, settings: LowNodeLoadSettings) -> None:
        self._settings = settings
        self._detectors: dict[tuple[str, str], Detector] = {}

    @property
    def rounds(self) -> int:
        """Rounds of observation before pods of an overused node move."""
        most = max(one.consecutive_abnormalities for one in self._settings.pools)
        return most + 1 if most > 1 else 1

    def observe(self, state: ClusterState, at_us: int) -> list[tuple[Pool, MeasuredPool, Classes]]:
        """Classify the nodes of each pool at a moment, and count the round for their detectors."""
        settings = self._settings
        measured = measured_pools(state, settings.pools, at_us, settings.metric_seconds)
        found = []
        for pool, one in zip(settings.pools, measured, strict=True):
            classes = classified(one)
            self._mark(pool, one, classes, at_us)
            found.append((pool, one, classes))
        return found

    def _mark(self, pool: Pool, measured: MeasuredPool, classes: Classes, at_us: int) -> None:
        sources = {one.name for one in classes.sources}
        destinations = {one.name for one in classes.destinations}
        for name in measured.uses:
            detector = self._detectors.setdefault(
                (pool.name, name),
                Detector(
                    pool.consecutive_abnormalities, pool.consecutive_normalities, pool.abnormal_seconds * SECOND_US,
                ),
            )  # fmt: skip
            if name in destinations:
                detector.reset()
            else:
                detector.mark(at_us, is_normal=name not in sources)

    def balance(self, plan: Round) -> None:
        """Propose pods of overused nodes, pool by pool."""
        for pool, measured, classes in self.observe(plan.state, plan.at_us):
            for text in self._limits(pool, measured, classes):
                plan.note(f"LowNodeLoad, pool {pool.name}: {text}")
            count = len(classes.destinations)
            if self._settings.number_of_nodes < count < len(measured.uses):
                self._balance(plan, pool, measured.bounds, classes)

    def _limits(self, pool: Pool, measured: MeasuredPool, classes: Classes) -> list[str]:
        """Unknown nodes and nodes not due, in words."""
        found, unknown = [], measured.unmeasured
        if not measured.uses:
            if unknown:
                found.append(
                    f"no node has a measurement of the last {self._settings.metric_seconds} s, so nothing is proposed;"
                    " NodeMetric objects are recorded while a profile of the scheduler has LoadAware"
                )  # fmt: skip
            return found
        if unknown:
            named = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
            found.append(
                f"{len(unknown):,} nodes without a fresh measurement are left out: {named}"
            )
        if not classes.sources:
            found.append("no node is overused")
        elif not classes.destinations:
            found.append("no node is underused")
        waiting = [one.name for one in classes.sources if not self._is_abnormal(pool, one)]
        if waiting:
            found.append(
                f"overused for fewer than {pool.consecutive_abnormalities + 1} rounds in a row: {', '.join(waiting)}"
            )
        return found

    def _is_abnormal(self, pool: Pool, use: NodeUse) -> bool:
        return pool.consecutive_abnormalities == 1 or self._detectors[pool.name, use.name].is_abnormal  # fmt: skip

    def _balance(
        self, plan: Round, pool: Pool, bounds: Mapping[str, Bounds], classes: Classes
    ) -> None:
        high = [one for one in classes.high if self._is_abnormal(pool, one)]
        prod_high = [one for one in classes.prod_high if self._is_abnormal(pool, one)]
        names = (*dict.fromkeys((*pool.low, *pool.prod_low, MEMORY)),)
        targets, both = [*classes.low, *classes.both], room(classes.both, bounds, names)
        spent = room(targets, bounds, names)
        LoadPass(plan, self.name, pool, bounds, targets, spent).relieve(high)
        # The first pass spent a part of the room of the nodes underused in both ways.
        of_both = room(classes.both, bounds, names, is_prod=True)
        left = room(classes.prod_low, bounds, names, is_prod=True)
        for name in names:
            left[name] += min(of_both[name], both[name], spent[name])
        targets = [*classes.prod_low, *classes.both]
        LoadPass(plan, self.name, pool, bounds, targets, left, is_prod=True).relieve(prod_high)


def classified(measured: MeasuredPool) -> Classes:
    """The nodes of a pool by their use."""
    found = Classes()
    for name, use in sorted(measured.uses.items()):
        bounds = measured.bounds[name]
        is_low = not use.unschedulable and is_underused(use.used, bounds.low)
        is_high = not is_low and bool(overused(use.used, bounds.high))
        is_prod_high = bool(overused(use.prod, bounds.prod_high))
        is_prod_low = not use.unschedulable and is_underused(use.prod, bounds.prod_low)
        if is_high:
            found.high.append(use)
        elif is_prod_high:
            found.prod_high.append(use)
        elif is_low:
            (found.both if is_prod_low else found.low).append(use)
        elif is_prod_low:
            found.prod_low.append(use)
    return found

"""LoadAware: nodes by their measured use, from Koordinator's node agent or metrics-server, and by the estimated use of new pods.

A measurement does not show a pod at once. A pod newer than it, or less than one interval older, or without a node yet, counts by
its estimate, less its part of the measurement. An older pod missing in the measurement may never start: it counts by its estimate
too, but by its requests at most. metrics-server names no pods: its measurement shows all older ones.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/loadaware; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np

from bus.clock import SECOND_US
from projections.cluster import Pod
from projections.cluster.loads import Amounts, NodeLoad
from reactors.scheduling.columns.table import Bools, Columns, Ints, Rows
from reactors.scheduling.framework.contract import ONE_CHANGE, Cycle, Refused
from reactors.scheduling.gangs.state import duration_us
from reactors.scheduling.plugins.load_rules import (
    EMPTY,
    INTERVAL_SECONDS,
    MOST_LOAD,
    estimated,
    is_expired,
    is_over,
    is_unseen,
    packed,
    picked,
    score,
)
from reactors.scheduling.queueing.hints import Hint

EXPIRED = "node(s) nodeMetric expired"
OVER = "node(s) {} usage exceed threshold"
RESOURCES = ("cpu", "memory")
#: Koordinator's classes by the priority of a pod: batch and mid pods request resources of their own.
CLASSES = (("batch", 5000, 5999), ("mid", 7000, 7999), ("free", 3000, 3999))

Percent = Annotated[int, msgspec.Meta(ge=0, le=10_000)]
Weight = Annotated[int, msgspec.Meta(ge=0, le=1_000)]
#: Of cpu and of memory.
Pair = tuple[int, int]
Percentile = Literal["", "avg", "p50", "p90", "p95", "p99"]


class Percents(msgspec.Struct, frozen=True):
    """Percent by resource; 0 = ignored."""

    cpu: Percent = 0
    memory: Percent = 0


class Weights(msgspec.Struct, frozen=True):
    """The weight of each resource."""

    cpu: Weight = 1
    memory: Weight = 1


class Thresholds(msgspec.Struct, rename="camel"):
    """A node's own thresholds, by its annotation."""

    usage_thresholds: dict[str, Percent] | None = None
    prod_usage_thresholds: dict[str, Percent] | None = None


class _Table(msgspec.Struct):
    """The load of each node, up to a version of the columns; amounts are [nodes x resources]."""

    layout: int
    updated_us: Ints
    version: int
    #: The amounts compared with the thresholds, with those for prod pods, and the scored ones.
    filtered: Ints
    prod: Ints
    scored: Ints
    thresholds: Ints
    prod_thresholds: Ints


class LoadAware(msgspec.Struct, frozen=True):
    """Load by measurement and estimate. ``rules``: Koordinator's present ones (``current``), or those of its version 1.0."""

    name: ClassVar[str] = "LoadAware"
    #: A measurement becomes outdated by time alone.
    is_local: ClassVar[bool] = False
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.LOAD, Hint.GONE})

    rules: Literal["current", "v1.0"] = "current"
    #: The source of measurements: NodeMetric objects of ``koordinator``, or the metrics API of ``metrics-server``.
    measured_by: Literal["koordinator", "metrics-server"] = "koordinator"
    thresholds: Percents = Percents(65, 95)
    #: For production pods, the use of production pods is compared with these instead, if one is set.
    prod_thresholds: Percents = Percents()
    #: Refuse nodes with a measurement as old as this.
    filter_expired: bool = True
    expires_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 180
    #: Percentile and duration for thresholds, and for scores; "" = the use now; 0 s = the longest reported.
    percentile: Percentile = ""
    percentile_seconds: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 0
    score_percentile: Percentile = ""
    score_percentile_seconds: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 0
    #: Production pods are scored by the use of production pods.
    scores_prod: bool = False
    weights: Weights = Weights()
    dominant_weight: Weight = 0
    #: The estimated use of a pod, in percent of its request.
    factors: Percents = Percents(85, 70)
    #: ``LeastUsed``, or ``TargetLoad``: nodes near ``target`` percent of their cpu.
    strategy: Literal["LeastUsed", "TargetLoad"] = "LeastUsed"
    target: Annotated[int, msgspec.Meta(ge=1, le=99)] = 40

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes too full with the pod, and nodes with an outdated measurement. One without a NodeMetric passes."""
        columns, table, is_v1 = cycle.columns, self._table(cycle.columns), self.rules == "v1.0"
        pod = cycle.pod
        if not is_v1 and pod.owner is not None and pod.owner.kind == "DaemonSet":
            return ()
        updated = table.updated_us[rows]
        expired: Bools = (updated >= 0) & self._is_expired(columns, updated)
        found = [(EXPIRED, expired)] if self.filter_expired else []
        used, thresholds = table.filtered[rows], table.thresholds[rows]
        if not is_v1 and is_prod(pod):
            own = table.prod_thresholds[rows]
            is_own = own.max(axis=1, keepdims=True) > 0
            used = np.where(is_own, table.prod[rows], used)
            thresholds = np.where(is_own, own, thresholds)
        if not is_v1:
            used = used + self._estimate(cycle)
        known = (updated >= 0) & ~expired
        for at, resource in enumerate(RESOURCES):
            capacity = columns.resources.allocatable[rows, at]
            over = is_over(used[:, at], capacity, thresholds[:, at], is_v1=is_v1)
            found.append((OVER.format(resource), over & known))
        # A deleted pod's use is still measured for a while.
        return [Refused(reason, nodes, nodes) for reason, nodes in found if nodes.any()]

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Measure the node, or wait until it uses less."""
        name, updated = cycle.columns.names[row], self._table(cycle.columns).updated_us[[row]]
        if self._is_expired(cycle.columns, updated).any():
            agent = (
                "Koordinator's node agent"
                if self.measured_by == "koordinator"
                else "metrics-server"
            )
            return f"let {agent} measure {name}: its measurement is older than {self.expires_seconds} s"
        return f"wait until {name} uses less, or raise LoadAware's thresholds"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The part left free, or the distance from the node's target; 0 with an outdated measurement."""
        columns, table = cycle.columns, self._table(cycle.columns)
        by_prod = self.scores_prod and self.rules == "current" and is_prod(cycle.pod)
        used = (table.prod if by_prod else table.scored)[rows] + self._estimate(cycle)
        capacity = columns.resources.allocatable[rows, : len(RESOURCES)]
        if self.strategy == "TargetLoad":
            found = packed(used[:, 0], capacity[:, 0], self.target)
        else:
            weights = (self.weights.cpu, self.weights.memory)
            dominant = self.dominant_weight if self.rules == "current" else 0
            found = score(list(used.T), list(capacity.T), weights, dominant)
        updated = table.updated_us[rows]
        return np.where((updated < 0) | self._is_expired(columns, updated), 0, found)

    def _is_expired(self, columns: Columns, updated: Ints) -> Bools:
        return is_expired(columns.at_us - updated, self.expires_seconds * SECOND_US)

    def _estimate(self, cycle: Cycle) -> Ints:
        found: Ints | None = cycle.data.get(self.name)
        if found is None:
            found = cycle.data[self.name] = np.array(self.estimate(cycle.pod), np.int64)
        return found

    def estimate(self, pod: Pod) -> Pair:
        """The estimated use of a pod, cpu and memory."""
        cpu, memory = asked(pod)
        is_v1 = self.rules == "v1.0"
        return _sum(
            (
                estimated(*cpu, self.factors.cpu, EMPTY[0], is_v1=is_v1),
                estimated(*memory, self.factors.memory, EMPTY[1], is_v1=is_v1),
            )
        )

    def _table(self, columns: Columns) -> _Table:
        # Two profiles may use other fields.
        known: _Table | None = columns.tables.get(self)
        if known is None or known.layout != columns.layout:
            size = (len(columns.nodes), len(RESOURCES))
            amounts: list[Ints] = [np.zeros(size, np.int64) for _ in range(5)]
            known = _Table(columns.layout, np.full(size[0], -1), -1, *amounts)
            columns.tables[self] = known
        if known.version != columns.version:
            for row in np.flatnonzero(
                np.maximum(columns.changed_at, columns.confirmed_at) > known.version
            ).tolist():
                self._describe(columns, known, row)
            known.version = columns.version
        return known

    def _describe(self, columns: Columns, table: _Table, row: int) -> None:
        table.thresholds[row], table.prod_thresholds[row] = self._limits(
            columns.nodes[row].usage_thresholds
        )
        load = columns.facts.load(columns.names[row])
        if load is None:
            table.updated_us[row] = -1
            return
        table.updated_us[row] = load.updated_us
        pods = [one.pod for one in columns.placed_on(row)]
        unseen, unseen_prod = self._unseen(load, pods)
        if self.rules == "v1.0":
            used = _known(load.used)
            table.filtered[row], table.scored[row] = used, _sum(used, unseen)
            return
        table.filtered[row] = self._used(
            load, pods, unseen, self.percentile, self.percentile_seconds
        )
        table.scored[row] = self._used(
            load, pods, unseen, self.score_percentile, self.score_percentile_seconds
        )
        measured = [_shown(load, one) for one in pods if is_prod(one)]
        table.prod[row] = _sum(unseen_prod, *measured)

    def _limits(self, text: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """A node's own thresholds replace those of the policy, all of one kind together."""
        own = Thresholds()
        if text:
            try:
                own = msgspec.json.decode(text, type=Thresholds)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                own = Thresholds()
        usual, prod = own.usage_thresholds, own.prod_usage_thresholds
        return _percents(usual, self.thresholds), _percents(prod, self.prod_thresholds)

    def _unseen(self, load: NodeLoad, pods: Sequence[Pod]) -> tuple[Pair, Pair]:
        """The use not measured yet, and its production part."""
        seconds = INTERVAL_SECONDS if load.interval_seconds is None else load.interval_seconds
        every, prod, is_v1 = [], [], self.rules == "v1.0"
        for pod in pods:
            shown = (0, 0) if is_v1 else _shown(load, pod)
            # One without a node of its own is placed ahead of the history.
            is_new = not pod.node or is_unseen(
                pod.started_us, load.updated_us, seconds * SECOND_US, is_v1=is_v1
            )
            if not is_new and (is_v1 or shown != (0, 0)):
                continue
            more = self.estimate(pod)
            if not is_new and load.names_no_pods:
                # The production part of the measurement is unknown.
                prod += [more] if is_prod(pod) else []
                continue
            if not is_new:
                # It may never start, and its limits are free.
                (cpu, _), (memory, _) = asked(pod)
                more = (min(more[0], cpu), min(more[1], memory))
            more = (max(more[0] - shown[0], 0), max(more[1] - shown[1], 0))
            every.append(more)
            if is_prod(pod):
                prod.append(more)
        return _sum(*every), _sum(*prod)

    def _used(
        self, load: NodeLoad, pods: Sequence[Pod], unseen: Pair, percentile: str, seconds: int
    ) -> Pair:
        found = list(load.used or (None, None))
        if percentile:
            reported = {
                duration_us(duration) // SECOND_US: used.get(percentile)
                for duration, used in load.aggregated
            }
            found = [
                picked({s: one and one[at] for s, one in reported.items()}, seconds, found[at])
                for at in range(len(RESOURCES))
            ]
        measured = _sum((found[0] or 0, found[1] or 0), unseen)
        if None not in found or not (percentile and seconds):
            return measured
        every = _sum(*map(self.estimate, pods))
        return (
            every[0] if found[0] is None else measured[0], every[1] if found[1] is None else measured[1]
        )  # fmt: skip


def _shown(load: NodeLoad, pod: Pod) -> Pair:
    """A pod's part of a measurement."""
    return _known(load.pods.get(f"{pod.namespace}/{pod.name}"))


def _known(amounts: Amounts | None) -> Pair:
    """Missing amounts are 0."""
    cpu, memory = amounts or (0, 0)
    return cpu or 0, memory or 0


def _percents(own: dict[str, int] | None, usual: Percents) -> Pair:
    """A node's own percents, if it has any: 0 for resources missing there."""
    return (own.get("cpu", 0), own.get("memory", 0)) if own else (usual.cpu, usual.memory)


def asked(pod: Pod) -> tuple[Pair, Pair]:
    """Request and limit of cpu, and of memory, in the resources of the pod's class."""
    prefix = next(
        (f"kubernetes.io/{name}-" for name, low, high in CLASSES[:2] if low <= pod.priority <= high), ""
    )  # fmt: skip
    demand = pod.demand
    return (
        (demand.get(f"requests.{prefix}cpu", 0), demand.get(f"limits.{prefix}cpu", 0)),
        (demand.get(f"requests.{prefix}memory", 0), demand.get(f"limits.{prefix}memory", 0)),
    )


def is_prod(pod: Pod) -> bool:
    """Whether a pod is a production pod by its priority: all but batch, mid and free ones."""
    return not any(low <= pod.priority <= high for _, low, high in CLASSES)


def _sum(*amounts: Pair) -> Pair:
    """The sums, limited to the range of the columns' arithmetic: tenants may write limits of any size."""
    cpu, memory = (sum(one[at] for one in amounts) for at in range(len(RESOURCES)))
    return min(cpu, MOST_LOAD), min(memory, MOST_LOAD)

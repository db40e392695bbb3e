"""One pass of LowNodeLoad over a pool: pods from overused nodes to underused ones, within the room of all of these together. Pure.

Source: koordinator-sh/koordinator, pkg/descheduler/framework/plugins/loadaware/utilization_util.go; docs/rebalancing.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from projections.cluster import ClusterState, Pod
from reactors.rebalancing.node_uses import Bounds, overused, percent, weighted
from reactors.rebalancing.settings import Pool
from reactors.rebalancing.shape import Accepts, NodeUse, Refusal
from reactors.scheduling.plugins.load_aware import is_prod as is_production


class Round(Protocol):
    """The part of :class:`reactors.rebalancing.plan.RebalancingPlan` for LowNodeLoad."""

    @property
    def state(self) -> ClusterState:
        """The frozen state of the cluster."""

    @property
    def at_us(self) -> int:
        """The moment of the round."""

    def note(self, text: str) -> None:
        """Record a limit of the answer."""

    def refuse(self, pod: Pod, plugin: str, reason: str, refusal: Refusal) -> None:
        """Record a staying pod."""

    def propose(self, pod: Pod, plugin: str, reason: str, gain: str, accepts: Accepts) -> bool:
        """Plan the move of a pod; whether it is planned."""


def room(
    targets: Iterable[NodeUse], bounds: Mapping[str, Bounds], names: Iterable[str], *, is_prod: bool = False
) -> dict[str, int]:  # fmt: skip
    """By resource, the room of nodes up to their upper bounds, added up."""
    found = dict.fromkeys(names, 0)
    for one in targets:
        used, high = _used(one, is_prod), _high(bounds[one.name], is_prod)
        for name in found:
            found[name] += high[name] - used[name]
    return found


class LoadPass:
    """Relieves sources by moving pods to ``targets``, and spends their ``room``.

    ``is_prod``: by the use of production pods alone.
    """

    def __init__(
        self, plan: Round, plugin: str, pool: Pool, bounds: Mapping[str, Bounds], targets: Sequence[NodeUse],
        room: dict[str, int], *, is_prod: bool = False,
    ) -> None:  # fmt: skip
        self._plan, self._plugin, self._pool, self._bounds = plan, plugin, pool, bounds
        self._targets = {one.name: one for one in targets}
        self._room, self._is_prod = room, is_prod

    def relieve(self, sources: Iterable[NodeUse]) -> None:
        """Propose pods of each source, the most used source first."""
        weights = self._pool.weights
        order = sorted(sources, key=lambda one: (-weighted(self._used(one), one.capacity, weights), one.name))  # fmt: skip
        for source in order if self._targets else ():
            exceeded = self._over(source)
            own = {name: weight for name, weight in weights.items() if name in exceeded}
            pods = [one for one in source.pods if not self._is_prod or is_production(one)]
            for pod in sorted(pods, key=lambda one: _turn(one, source, own)):
                if not self._over(source) or any(left <= 0 for left in self._room.values()):
                    break
                self._propose(pod, source)

    def _propose(self, pod: Pod, source: NodeUse) -> None:
        over, uses = self._over(source), source.measured.get(pod.uid)
        reason = f"{'production ' if self._is_prod else ''}use of {source.name} is high: {self._shares(source, over)}"
        if uses is None:
            why = Refusal("unmeasured-pod", "the measurement of the node does not name the pod")
            self._plan.refuse(pod, self._plugin, reason, why)
        elif self._plan.propose(
            pod, self._plugin, reason, self._gain(source, over, uses), self._accepts(uses)
        ):
            for amounts in self._changed(source):
                _add(amounts, uses, -1)
            _add(self._room, uses, -1)

    def _accepts(self, uses: Mapping[str, int]) -> Accepts:
        """Accepts an underused node if it stays within its bounds, and counts the pod there."""

        def accepts(node: str) -> Refusal | None:
            target = self._targets.get(node)
            if target is None:
                return Refusal("destination-overused", f"the scheduler chooses {node}, which is not underused")  # fmt: skip
            for amounts in self._changed(target):
                _add(amounts, uses, 1)
            bounds = self._bounds[node]
            over = overused(target.used, bounds.high)
            if self._is_prod:
                over |= overused(target.prod, bounds.prod_high)
            if not over:
                return None
            for amounts in self._changed(target):
                _add(amounts, uses, -1)
            return Refusal("destination-overused", f"the pod would overuse {node}, which the scheduler chooses")  # fmt: skip

        return accepts

    def _changed(self, use: NodeUse) -> list[dict[str, int]]:
        """The amounts changed by a move of this pass."""
        return [use.used, use.prod] if self._is_prod else [use.used]

    def _used(self, use: NodeUse) -> dict[str, int]:
        return _used(use, self._is_prod)

    def _over(self, use: NodeUse) -> dict[str, int]:
        return overused(self._used(use), _high(self._bounds[use.name], self._is_prod))

    def _shares(self, source: NodeUse, over: Iterable[str]) -> str:
        """By resource, percent of the node and its upper bound."""
        used, high = self._used(source), _high(self._bounds[source.name], self._is_prod)
        return ", ".join(
            f"{name} {percent(used, source.capacity, name)} %, bound {percent(high, source.capacity, name)} %"
            for name in over
        )

    def _gain(self, source: NodeUse, over: Iterable[str], uses: Mapping[str, int]) -> str:
        used, capacity = self._used(source), source.capacity
        after = {name: amount - uses.get(name, 0) for name, amount in used.items()}
        return ", ".join(
            f"{source.name} {name} {percent(used, capacity, name)} % to {percent(after, capacity, name)} %"
            for name in over
        )


def _used(use: NodeUse, is_prod: bool) -> dict[str, int]:
    return use.prod if is_prod else use.used


def _high(bounds: Bounds, is_prod: bool) -> dict[str, int]:
    return bounds.prod_high if is_prod else bounds.high


def _add(amounts: dict[str, int], uses: Mapping[str, int], sign: int) -> None:
    for name in amounts:
        amounts[name] += sign * uses.get(name, 0)


def _turn(pod: Pod, source: NodeUse, weights: Mapping[str, int]) -> tuple[object, ...]:
    """The place of a pod in the order of evictions; of equal pods the larger users of the exceeded resources come first."""
    uses = source.measured.get(pod.uid)
    used = weighted(uses, source.capacity, weights) if uses is not None else 0
    return is_production(pod), pod.priority, _qos(pod), -used, -pod.started_us, pod.uid


def _qos(pod: Pod) -> int:
    """The QoS class of Kubernetes: BestEffort, Burstable, Guaranteed."""
    requests, limits = (
        [pod.demand.get(f"{part}.{name}", 0) for name in ("cpu", "memory")]
        for part in ("requests", "limits")
    )
    if not any(requests) and not any(limits):
        return 0
    return 2 if all(limits) and requests == limits else 1

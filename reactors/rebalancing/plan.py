"""The plan of a round: checks each proposal of a plugin by the scheduler's own rules, and deducts it. Pure but for its state.

A proposed pod is counted no more on its node, and a copy of it is scheduled. The move is refused where no node fits, and where the
scheduler would choose the pod's own node, or might choose it among equals. A planned copy keeps its room on the new node, so later
proposals see the state after all planned moves.

Source: kubernetes-sigs/descheduler, "Node Fit"; docs/rebalancing.md.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np

from bus.clock import SECOND_US
from projections.cluster import ClusterState, Pod
from reactors.rebalancing.evictor import Evictor
from reactors.rebalancing.settings import RebalancingPolicy
from reactors.rebalancing.shape import Accepts, Move, Outcome, Refusal, RefusedMove
from reactors.scheduling.columns.cards import parts_of
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.framework.contract import Code, Cycle, PreFilter, extends
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.queueing.messages import unschedulable

#: Appended to the uid of a pod, for the scheduled copy.
COPY = "~moved"


class RebalancingPlan:
    """The moves of one round. ``scheduler``: places the pods of its profiles; others go by the default profile."""

    def __init__(
        self, state: ClusterState, scheduler: Scheduler, policy: RebalancingPolicy, sequence: int, at_us: int,
    ) -> None:  # fmt: skip
        self.state, self.policy, self.at_us = state, policy, at_us
        self.columns: Columns = scheduler.columns
        self.columns.at_us = at_us
        self._scheduler, self._sequence = scheduler, sequence
        self._default = Framework(default_profile("default-scheduler"), scheduler.context)
        self._evictor = Evictor(state, policy)
        self._moves: list[Move] = []
        self._refused: list[RefusedMove] = []
        self._notes: list[str] = []

    @property
    def outcome(self) -> Outcome:
        """The plan so far."""
        return Outcome(tuple(self._moves), tuple(self._refused), tuple(self._notes))

    def note(self, text: str) -> None:
        """Record a limit of the answer."""
        self._notes.append(text)

    def framework(self, pod: Pod) -> Framework:
        """The plugins for placing a pod again."""
        name = self._scheduler.runners.profile_of(pod)
        return self._scheduler.frameworks[name] if name else self._default

    def pods_on(self, row: int) -> list[Pod]:
        """The pods left on a node by the plan, the least important and youngest first."""
        found = [one.pod for one in self.columns.placed_on(row) if one.pod.is_bound]
        return sorted(found, key=lambda pod: (pod.priority, -pod.started_us, pod.uid))

    def refusals(self, pod: Pod, plugin: str) -> list[str]:
        """The reasons of a plugin of the scheduler against a pod on its own node, as if it were placed anew."""
        rows = np.array([self.columns.row_of[pod.node]], np.int64)
        framework, found = self.framework(pod), list[str]()
        self.columns.lift(pod.uid)
        cycle = Cycle(_copy(pod, self.at_us), framework.context)
        for one in framework.filtering.filters:
            if one.name == plugin and not (extends(one, PreFilter) and _skips(one, cycle)):
                found += [each.reason for each in one.filter(cycle, rows) if each.nodes[0]]
        self.columns.put_back(pod.uid)
        return found

    def open_nodes(self, pod: Pod, closing: Collection[str]) -> int:
        """How many nodes these plugins of the scheduler leave to a pod."""
        is_open = np.ones(len(self.columns.names), np.bool_)
        framework = self.framework(pod)
        cycle = Cycle(_copy(pod, self.at_us), framework.context)
        for one, refused in framework.filtering.refusals(cycle):
            for each in refused if one.name in closing else ():
                is_open &= ~each.nodes
        return int(is_open.sum())

    def refuse(self, pod: Pod, plugin: str, reason: str, refusal: Refusal) -> None:
        """Record a proposed pod, and why it stays."""
        self._refused.append(RefusedMove(pod, pod.node, plugin, reason, refusal))

    def propose(
        self, pod: Pod, plugin: str, reason: str, gain: str = "", accepts: Accepts = lambda node: None
    ) -> bool:  # fmt: skip
        """Plan the move of a pod, or record why it stays. Whether it is planned."""
        refusal = self._evictor.refuses(pod)
        if refusal is None:
            self.columns.lift(pod.uid)
            destination, refusal = self._destination(pod, accepts)
            if refusal is None:
                self._planned(pod, destination, plugin, reason, gain)
                return True
            self.columns.put_back(pod.uid)
        self.refuse(pod, plugin, reason, refusal)
        return False

    def _destination(self, pod: Pod, accepts: Accepts) -> tuple[str, Refusal | None]:
        """The scheduler's node for a lifted pod; a refusal without another node."""
        framework, columns = self.framework(pod), self.columns
        copy = _copy(pod, self.at_us)
        why = framework.pre_enqueue(copy)
        if why:
            return "", Refusal("fits-nowhere", why)
        cycle = Cycle(copy, framework.context)
        choice = framework.choose(cycle, self._sequence)
        if choice.row < 0:
            message = unschedulable(choice.refused, len(columns.names), choice.reason)
            return "", Refusal("fits-nowhere", message)
        own = columns.row_of.get(pod.node, -1)
        if own in choice.rows[choice.totals == choice.totals.max()].tolist():
            return "", Refusal("put-back", f"the scheduler may choose {pod.node} again")
        destination = columns.names[choice.row]
        refusal = accepts(destination)
        if refusal is None:
            cards, cpus = framework.cards(cycle, choice.row), framework.cpus(cycle, choice.row)
            columns.place(copy, destination, cards, cpus)
        return destination, refusal

    def _planned(self, pod: Pod, destination: str, plugin: str, reason: str, gain: str) -> None:
        self._evictor.plan(pod)
        ran_s = max(self.at_us - pod.started_us, 0) // SECOND_US
        count, milli, _ = parts_of(pod)
        self._moves.append(
            Move(
                pod, self._evictor.workload(pod), pod.node, destination, plugin, reason, gain,
                ran_s, count * milli * ran_s,
            )
        )  # fmt: skip


def _copy(pod: Pod, at_us: int) -> Pod:
    """The pod created by a controller in the place of an evicted one."""
    terms = pod.constraints
    if terms is not None and terms.cpus is not None:
        # Its CPUs are those of its node.
        cpus = msgspec.structs.replace(terms.cpus, holds=None)
        terms = msgspec.structs.replace(terms, cpus=cpus)
    return msgspec.structs.replace(
        pod, uid=f"{pod.uid}{COPY}", node="", phase="Pending", started_us=at_us, devices=None, constraints=terms,
    )  # fmt: skip


def _skips(plugin: PreFilter, cycle: Cycle) -> bool:
    """Whether a plugin has nothing to say of a pod."""
    status = plugin.pre_filter(cycle)
    return status is not None and status.code is Code.SKIP

"""Decisions of the scheduler's passes about a pod: as recorded, and derived again from the history."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec
import numpy as np
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.decisions import BindSettled, Refusal, SchedulingPassed, TriedPod
from deploy.errors import AbsentObjectError
from projections.bind_decisions import of
from projections.cluster import Pod
from projections.quota_trees.queries import Select, archived, facts
from reactors.catalogue import REACTORS
from reactors.engine.snapshots import at
from reactors.scheduling import NAME as SCHEDULING
from reactors.scheduling.columns.table import Placed
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.preemption.nominations import hold
from reactors.scheduling.state import SchedulingState

#: Decisions of which is told, the newest.
MOST = 100

_OUTCOMES = (
    "SELECT uid, id, outcome, message, bound_node FROM v1_bind_decisions"
    " WHERE cluster = :cluster AND uid = :uid"
)


class Recorded(msgspec.Struct, frozen=True):
    """A pass, its decision about one pod, and the outcome of that."""

    event: Event
    fact: SchedulingPassed
    pod: TriedPod
    #: As ``v1_bind_decisions`` has it.
    outcome: str
    message: str = ""
    bound_node: str = ""

    @property
    def node(self) -> str:
        """The chosen node; "" = none."""
        return self.fact.nodes[self.pod.node] if self.pod.node >= 0 else ""

    @property
    def refusal(self) -> Refusal:
        """The refused nodes, by plugin."""
        return self.fact.refusals[self.pod.refused] if self.pod.refused >= 0 else Refusal()

    @property
    def top(self) -> list[tuple[str, int]]:
        """The best nodes and the sums of their scores."""
        fact, pairs = self.fact, zip(self.pod.top[::2], self.pod.top[1::2], strict=True)
        return [(fact.nodes[node], sum(fact.scores[scores])) for node, scores in pairs]


def recorded(
    connection: sa.Connection, select: Select, cluster: str, name: str, uids: Collection[str]
) -> list[Recorded]:
    """The newest decisions about the pods of these uids, or of the pass with the id ``name``; the oldest first."""
    newest = of(select, cluster, name, uids, MOST)
    outcomes = {
        (row.uid, row.id): row
        for uid in sorted({row[0] for row in newest})
        for row in connection.execute(sa.text(_OUTCOMES), {"cluster": cluster, "uid": uid})
    }
    found = []
    for uid, decision, sequence in newest:
        event, fact = _pass(select, cluster, uid, sequence)
        became = outcomes[uid, decision]
        outcome = became.outcome, became.message or "", became.bound_node or ""
        found += [Recorded(event, fact, pod, *outcome) for pod in fact.pods if pod.uid == uid]
    return found


def _pass(select: Select, cluster: str, uid: str, sequence: int) -> tuple[Event, SchedulingPassed]:
    """The pass of the event ``sequence``: that event, or the pass behind the outcome of a bind."""
    ((event, fact),) = _passes_and_settled(select, cluster, sequence - 1, sequence)
    if isinstance(fact, BindSettled):
        (passed,) = {one.passed for one in fact.failed if one.uid == uid}
        ((event, fact),) = _passes_and_settled(select, cluster, passed - 1, passed)
    assert isinstance(fact, SchedulingPassed)
    return event, fact


def _passes_and_settled(
    select: Select, cluster: str, after: int, until: int
) -> list[tuple[Event, SchedulingPassed | BindSettled]]:
    types = (SchedulingPassed.wire_type, BindSettled.wire_type)
    found = facts(archived(select, cluster, types, after=after, until=until))
    return [
        (event, fact) for event, fact in found if isinstance(fact, SchedulingPassed | BindSettled)
    ]


class Derived(msgspec.Struct, frozen=True):
    """One cycle, derived again. ``node`` "" = no node took the pod."""

    node: str
    #: The fitting nodes, by plugin their weighted scores.
    nodes: list[str]
    scores: dict[str, list[int]]
    #: By node: the plugins that refuse it, each with its reasons.
    refused: dict[str, dict[str, list[str]]]


def derived(select: Select, cluster: str, one: Recorded) -> Derived:
    """The whole table of a decision, by today's rules on the state of that time.

    The pods tried before in that pass take their room, as they did, and nodes are held for its nominated pods. Raises
    AbsentObjectError if the pod did not wait then.
    """
    fact = one.fact
    replica = at(select, REACTORS, cluster, fact.after)
    known = replica.states[SCHEDULING]
    assert isinstance(known, SchedulingState)
    scheduler, pods = known.scheduler, replica.cluster_state.pods
    if scheduler is not None and scheduler.reservations is not None:
        pods = {**scheduler.reservations.known.stand_ins(), **pods}
    if scheduler is None or fact.profile not in scheduler.frameworks or one.pod.uid not in pods:
        raise AbsentObjectError(f"at event {fact.after:,} the pod did not wait for this scheduler")
    parts = [
        part
        for _, part in _passes_and_settled(select, cluster, fact.after, one.event.sequence)
        if isinstance(part, SchedulingPassed)
        and part.after == fact.after
        and part.part <= fact.part
    ]
    for part, tried in [(each, tried) for each in parts for tried in each.pods]:
        if (part.part, tried) == (fact.part, one.pod):
            break
        if tried.node >= 0 and tried.uid in pods:
            before = Cycle(pods[tried.uid], scheduler.context)
            framework, node = scheduler.frameworks[part.profile], part.nodes[tried.node]
            framework.prepare(before)
            cpus = part.cpus.get(tried.uid)
            scheduler.columns.place(before.pod, node, tried.cards, cpus)
            framework.reserve(before, scheduler.columns.row_of[node])
    if scheduler.preemption == "on" and not fact.is_shadow:
        for uid, node in _nominated_before(scheduler, parts, fact.profile, one.pod.uid):
            hold(scheduler.columns, [Placed(pods[uid], node)])
    return _derived(scheduler.frameworks[fact.profile], pods[one.pod.uid], fact.after)


def _nominated_before(
    scheduler: Scheduler, parts: Sequence[SchedulingPassed], profile: str, uid: str
) -> Iterator[tuple[str, str]]:
    """The pods that a pass nominated before it tried this one, each with its node."""
    own, group = scheduler.queues[profile].get(uid), scheduler.gangs.started_with(uid)
    for part in parts:
        queue = scheduler.queues[part.profile]
        for asked in part.nominated:
            if group and scheduler.gangs.started_with(asked.uid) == group:
                continue
            other = queue.get(asked.uid)
            is_before = part.profile != profile or (
                own is not None and other is not None and queue.turn_of(other) < queue.turn_of(own)
            )
            if is_before:
                yield asked.uid, part.nodes[asked.node]


def _derived(framework: Framework, pod: Pod, sequence: int) -> Derived:
    names = framework.columns.names
    cycle = Cycle(pod, framework.context)
    choice = framework.choose(cycle, sequence)
    refused: dict[str, dict[str, list[str]]] = {}
    asked = [(plugin.name, found) for plugin, found in framework.filtering.refusals(cycle)]
    left_out = framework.filtering.left_out(cycle)
    for name, found in ([(left_out[0], [left_out[1]])] if left_out else []) + asked:
        for refusal in found:
            for row in refusal.nodes.nonzero()[0].tolist():
                refused.setdefault(names[row], {}).setdefault(name, []).append(refusal.reason)
    # Who fits beside the pods of a node, but not beside those that it is held for.
    for row, name, found in framework.filtering.held(cycle, np.arange(len(names))):
        refused.setdefault(names[row], {name: [refusal.reason for refusal in found]})
    return Derived(
        names[choice.row] if choice.row >= 0 else "",
        [names[row] for row in choice.rows.tolist()],
        {name: scores.tolist() for name, scores in choice.scores.items()},
        refused,
    )

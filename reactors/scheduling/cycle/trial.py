"""The decision of a pass: every due pod is tried, and then all placements are taken back. Pure.

Each placed pod is counted at once, so the next one finds the remaining room. A pod failing after the choice of its node is
unreserved by every plugin, in reverse order, including plugins not called before.

Victims are searched for a pod refused by every node. Pods with victims already being evicted are skipped. With preemption on, the
node is reserved. Groups share one search (:mod:`reactors.scheduling.preemption.making_room`). A search reads many pods, so a pass
ends after a few searches, and the next one goes on. After a search without victims, equal pods are not searched for in this pass.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TypeAlias

import msgspec

from bus.events.constraints import HeldCpus
from projections.cluster import Pod
from reactors.scheduling.columns.table import Bools, Placed
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Alike, Cycle, Preemption, Together
from reactors.scheduling.framework.explaining import Candidate, best
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.preemption.making_room import MOST_SEATS, GangRoom
from reactors.scheduling.preemption.nominations import hold
from reactors.scheduling.queueing.messages import unschedulable
from reactors.scheduling.queueing.queue import Place, Queued

#: Most kinds of a gang's pods in the sum of room in domains.
MOST_KINDS = 32
#: Most searches for victims in a pass.
MOST_SEARCHES = 4
#: Steps of a gang's search counted as one search: some 0.9 s of CPU.
LONG_STEPS = 25_000


#: The profile of a pod, its framework, and the pod.
Member: TypeAlias = tuple[str, Framework, Queued]


class PassAttempt(msgspec.Struct, frozen=True):
    """The result for one pod in a pass. ``node`` "" = it waits."""

    pod: Pod
    number: int
    node: str
    feasible: int
    #: By plugin and reason: the number of refused nodes.
    refused: dict[str, dict[str, int]]
    #: The reason if no node was evaluated, or if its node was not reserved.
    reason: str = ""
    top: tuple[Candidate, ...] = ()
    cards: tuple[int, ...] = ()
    cpus: HeldCpus | None = None
    #: The message in kube-scheduler's form; "" with a node.
    message: str = ""
    #: It was refused for the same reasons as the last time.
    is_again: bool = False
    #: The victims for it.
    preemption: Preemption | None = None


def attempts(
    scheduler: Scheduler, sequence: int, at_us: int, most: int, *, preempts: bool = True
) -> dict[str, list[PassAttempt]]:
    """The results for the due pods, at most so many, by profile. ``sequence``: the newest event read.

    ``preempts``: victims are searched, if the policy allows it.
    """
    cycles = scheduler.gangs.cycles
    with cycles.trial() if cycles is not None else nullcontext():
        return _attempts(scheduler, sequence, at_us, most, preempts=preempts)


def _attempts(
    scheduler: Scheduler, sequence: int, at_us: int, most: int, *, preempts: bool
) -> dict[str, list[PassAttempt]]:
    found: dict[str, list[PassAttempt]] = {}
    tried: list[tuple[Framework, Cycle]] = []
    groups = Groups(scheduler, at_us)
    nominated = dict(scheduler.columns.nominated)
    searches = Searches(scheduler, sequence, at_us, is_on=preempts)
    cycles = scheduler.gangs.cycles
    try:
        for name, queue in scheduler.queues.items():
            framework = scheduler.frameworks[name]
            for one in queue.due(at_us, most, partial(groups.rest, framework)):
                if searches.are_over or most <= 0:
                    break
                group = groups.of(framework, one)
                if group is None:
                    most -= 1
                    attempt = _tried(framework, one, sequence, tried, searches)
                    if cycles is not None:
                        cycles.tried(one.pod.uid)
                        if not attempt.node:
                            cycles.failed(one.pod.uid)
                    found.setdefault(name, []).append(attempt)
                elif not group.is_tried:
                    most -= len(group.members)
                    outcome = tried_together(scheduler, group, sequence, tried)
                    for profile, attempt in searches.search_together(group, outcome):
                        found.setdefault(profile, []).append(attempt)
    finally:
        scheduler.columns.nominated = nominated
        _take_back(tried, 0)
    return found


class Searches:
    """The searches for victims of one pass."""

    def __init__(self, scheduler: Scheduler, sequence: int, at_us: int, *, is_on: bool) -> None:
        self._nominations, self._columns = scheduler.nominations, scheduler.columns
        self._context = scheduler.context
        self._cycles = scheduler.gangs.cycles
        self._is_on = is_on and scheduler.preemption != "off"
        self._holds = scheduler.preemption == "on" and not scheduler.is_shadow
        self._sequence, self._sparing = sequence, scheduler.nominations.sparing(at_us)
        self._left = MOST_SEARCHES
        self._in_vain: set[Hashable] = set()

    @property
    def are_over(self) -> bool:
        """Whether the pass has searched enough."""
        return not self._left

    def search(self, framework: Framework, cycle: Cycle) -> Preemption | None:
        """The victims for a pod refused by every node; its node is held for it from now on. None = no victims."""
        pod, columns = cycle.pod, self._columns
        if not self._is_on or min(columns.priorities, default=pod.priority) >= pod.priority:
            return None
        if self._cycles is not None and self._cycles.counts(pod.uid):
            # The start of the rest of its gang is unknown, whatever the victims of this pod.
            return None
        kind = framework.kind(cycle)
        if kind in self._in_vain or self._nominations.awaits(pod.uid, framework, cycle):
            return None
        found = framework.post_filter(cycle, self._sequence, self._sparing)
        # A plugin forbade the search.
        self._left -= found is not None
        if found is None or not found.node:
            self._in_vain.add(kind)
            return None
        if self._holds:
            hold(columns, [Placed(pod, found.node)])
        return found

    def search_together(
        self, group: PassGroup, tried: list[tuple[str, PassAttempt]]
    ) -> list[tuple[str, PassAttempt]]:
        """The results for the pods of a group: without nodes, with the victims for enough of them."""
        columns, members = self._columns, [(own, one) for _, own, one in group.members]
        lowest = min((one.pod.priority for _, one in members), default=0)
        if any(attempt.node for _, attempt in tried) or not self._is_on:
            return tried
        constraints = [one.pod.constraints for _, one in members]
        is_never = any(one is not None and one.never_preempts for one in constraints)
        # Pods with a gate are no members: a group in need of them does not start, whatever its victims.
        if group.plugin.missing(group.names, [one.pod.uid for _, one in members], self._context):
            return tried
        lacking = sum(group.plugin.lacking(name, self._context) for name in group.names)
        if is_never or lacking > MOST_SEATS or min(columns.priorities, default=lowest) >= lowest:
            return tried
        cycles = [
            (one.pod.uid, own, Cycle(one.pod, self._context))
            for own, one in members
            if one.pod.uid in self._nominations.all
        ]
        if cycles and all(self._nominations.awaits(*one) for one in cycles):
            return tried
        room = GangRoom(group.plugin, group.names, members, self._sequence, self._sparing)
        found = room.find(partial(_alike, self._context, group.members))
        # A long one counts for several.
        self._left = max(0, self._left - 1 - room.steps // LONG_STEPS)
        if self._holds:
            pods = {one.pod.uid: one.pod for _, one in members}
            hold(columns, [Placed(pods[uid], one.node) for uid, one in found.items()])
        return [
            (name, msgspec.structs.replace(one, preemption=found.get(one.pod.uid)))
            for name, one in tried
        ]


def _tried(
    framework: Framework,
    one: Queued,
    sequence: int,
    tried: list[tuple[Framework, Cycle]],
    searches: Searches | None,
) -> PassAttempt:
    pod, columns = one.pod, framework.columns
    cycle = Cycle(pod, framework.context)
    choice = framework.choose(cycle, sequence)
    reason = choice.reason
    if choice.row >= 0:
        node = columns.names[choice.row]
        cards, cpus = framework.cards(cycle, choice.row), framework.cpus(cycle, choice.row)
        columns.place(pod, node, cards, cpus)
        tried.append((framework, cycle))
        reason = framework.reserve(cycle, choice.row)
        if not reason:
            top = tuple(best(columns, choice))
            return PassAttempt(
                pod, one.number, node, choice.rows.size, choice.refused, "", top, cards, cpus
            )
        framework.unreserve(cycle)
        columns.take_back(pod.uid)
        tried.pop()
    preemption = searches.search(framework, cycle) if searches is not None and not reason else None
    return _refused(framework, one, choice.refused, reason, preemption)


def _refused(
    framework: Framework,
    one: Queued,
    refused: dict[str, dict[str, int]],
    reason: str,
    preemption: Preemption | None = None,
) -> PassAttempt:
    message = unschedulable(refused, len(framework.columns.names), reason)
    reasons = {name: tuple(found) for name, found in refused.items()}
    gangs = framework.context.gangs
    # The cycles of gangs depend on the order of the attempts.
    is_counted = (
        gangs is not None and gangs.cycles is not None and gangs.of(one.pod.uid) is not None
    )
    is_again = (
        not is_counted
        and (not reasons or one.refused_by == reasons)
        and ((one.attempts > 0 and one.reason == message) or (bool(reasons) and not reason))
    )
    return PassAttempt(
        one.pod, one.number, "", 0, refused, reason, message=message, is_again=is_again,
        preemption=preemption,
    )  # fmt: skip


class PassGroup:
    """Waiting pods placed in one pass or not at all, the next one first, with profile and framework of each."""

    def __init__(
        self, plugin: Together, names: Sequence[str], members: list[Member], at_us: int
    ) -> None:
        self.plugin, self.names, self.members = plugin, names, members
        self.is_tried = False
        #: The back-off of each is the back-off of all.
        self.rests = any(one.rests_until_us > at_us for _, _, one in members)

    def parts(self, context: PluginContext) -> Iterator[tuple[Sequence[str], list[Member]]]:
        """Its sets with the members of each: one by one if one of them needs a domain of its own, else together."""
        if not self.plugin.are_apart(self.names, context):
            yield self.names, self.members
            return
        for name in self.names:
            uids = set(self.plugin.members((name,), context))
            members = [one for one in self.members if one[2].pod.uid in uids]
            if members:
                yield (name,), members


class Groups:
    """The groups of one pass, each found once."""

    def __init__(self, scheduler: Scheduler, at_us: int) -> None:
        self._scheduler, self._at_us = scheduler, at_us
        self._known: dict[tuple[str, ...], PassGroup] = {}

    def of(self, framework: Framework, one: Queued) -> PassGroup | None:
        """The group of a pod; None = it is placed by itself."""
        found = framework.together(one.pod)
        if found is None:
            return None
        plugin, names = found
        key = (plugin.name, *names)
        if key not in self._known:
            members = self._members(plugin.members(names, framework.context))
            self._known[key] = PassGroup(plugin, names, members, self._at_us)
        return self._known[key]

    def rest(self, framework: Framework, one: Queued) -> bool:
        """Whether a pod rests with others."""
        group = self.of(framework, one)
        return group is not None and group.rests

    def _members(self, uids: Iterable[str]) -> list[Member]:
        found: list[Member] = []
        queues, frameworks = self._scheduler.queues, self._scheduler.frameworks
        for uid in uids:
            for name, queue in queues.items():
                one = queue.get(uid)
                if one is not None and one.place is not Place.GATED:
                    found.append((name, frameworks[name], one))
        return sorted(found, key=lambda member: queues[member[0]].turn_of(member[2]))


def tried_together(
    scheduler: Scheduler, group: PassGroup, sequence: int, tried: list[tuple[Framework, Cycle]]
) -> list[tuple[str, PassAttempt]]:
    """The results for the pods of a group. If too few find a node, all placements are taken back."""
    group.is_tried = True
    begun, found = len(tried), list[tuple[str, PassAttempt]]()
    for names, members in group.parts(scheduler.context):
        more, why, first = _in_domains(scheduler, group.plugin, names, members, sequence, tried)
        if why:
            _take_back(tried, begun)
            return [(name, _refused(own, one, first, why)) for name, own, one in group.members]
        found += more
    placed = [attempt.pod.uid for _, attempt in found if attempt.node]
    why = group.plugin.missing(group.names, placed, scheduler.context)
    if why:
        _take_back(tried, begun)
        return [(name, _refused(own, one, {}, why)) for name, own, one in group.members]
    return found


def _take_back(tried: list[tuple[Framework, Cycle]], begun: int) -> None:
    for framework, cycle in reversed(tried[begun:]):
        framework.unreserve(cycle)
        framework.columns.take_back(cycle.pod.uid)
    del tried[begun:]


#: The results for pods, the reason why they cannot start together, and the refusals of the first pod without a node.
_Outcome: TypeAlias = tuple[list[tuple[str, PassAttempt]], str, dict[str, dict[str, int]]]


def _in_domains(
    scheduler: Scheduler,
    plugin: Together,
    names: Sequence[str],
    members: Sequence[Member],
    sequence: int,
    tried: list[tuple[Framework, Cycle]],
) -> _Outcome:
    """The results for pods placed together, in the first domain with enough room for them."""
    columns, begun = scheduler.columns, len(tried)
    domains: Sequence[Bools | None] = (None,)
    outcome: _Outcome = [], "", {}
    if len(names) == 1:
        context = scheduler.context
        domains, why = plugin.domains(names[0], partial(_alike, context, members), context)
        outcome = [], why, {}
    for columns.domain in domains:
        try:
            outcome = _tried_all(plugin, names, members, sequence, tried)
        finally:
            columns.domain = None
        if not outcome[1]:
            break
        _take_back(tried, begun)
    return outcome


def _tried_all(
    plugin: Together,
    names: Sequence[str],
    members: Sequence[Member],
    sequence: int,
    tried: list[tuple[Framework, Cycle]],
) -> _Outcome:
    found, placed, failed, looks_at = list[tuple[str, PassAttempt]](), list[str](), 0, 1
    first: dict[str, dict[str, int]] = {}
    for at, (name, framework, one) in enumerate(members):
        attempt = _tried(framework, one, sequence, tried, None)
        found.append((name, attempt))
        if attempt.node:
            placed.append(one.pod.uid)
            continue
        failed, first = failed + 1, first if failed else attempt.refused
        if failed == looks_at:
            # Checks for a hopeless group become ever rarer, so their sum stays cheap.
            looks_at *= 2
            left = [other.pod.uid for _, _, other in members[at + 1 :]]
            if plugin.missing(names, [*placed, *left], framework.context):
                break
    why = plugin.missing(names, placed, members[0][1].context)
    return found, why, first


def _alike(context: PluginContext, members: Sequence[Member]) -> list[Alike]:
    """Members by their fields for filters, apart from their labels; at most so many kinds, as each is checked against all nodes."""
    kinds: dict[Hashable, list[Member]] = {}
    for name, framework, one in members:
        kind = name, framework.likeness(Cycle(one.pod, context))
        kinds.setdefault(kind, []).append((name, framework, one))
    most = sorted(kinds.values(), key=len, reverse=True)[:MOST_KINDS]
    return [
        Alike(len(ones), ones[0][1].filtering.room(Cycle(ones[0][2].pod, context))) for ones in most
    ]

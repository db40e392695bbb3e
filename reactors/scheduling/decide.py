"""The scheduler's decisions from the state as read: passes, as facts. Pure.

A pod refused for the same reasons as the last time is recorded by its number alone: its attempt counts for its back-off. A pass
too large for one event is cut into parts.

Source: docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from bus.events.decisions import Nomination, Refusal, SchedulingPassed, TriedPod, Victim
from reactors.engine.contract import Concluded
from reactors.engine.policies import Current
from reactors.scheduling import RULES
from reactors.scheduling.cycle.trial import PassAttempt, attempts
from reactors.scheduling.settings import SchedulingPolicy

if TYPE_CHECKING:
    from reactors.scheduling.cycle.passes import Scheduler
    from reactors.scheduling.state import SchedulingState

#: Largest part of a pass, bytes: the limit of a message of the stream (:class:`bus.streams.Stream`).
MOST_BYTES = 64 * 1024
#: Most recorded reasons of one plugin for one pod, those of the most nodes; and the length of one.
MOST_REASONS = 20
MOST_LETTERS = 256


def concluded(
    state: SchedulingState, scheduler: Scheduler, current: Current
) -> Sequence[Concluded]:
    """The due passes, in parts stored together; none without a due pod."""
    assert isinstance(current.policy, SchedulingPolicy)
    found = attempts(scheduler, state.sequence, state.at_us, current.policy.most_pods)
    empty = SchedulingPassed(
        profile="", after=state.sequence, assumed=state.newest, rules=RULES, policy=current.digest,
        is_shadow=current.mode == "shadow", at_us=state.at_us, count=len(scheduler.columns.names),
    )  # fmt: skip
    facts = [
        part
        for profile, attempts in found.items()
        for part in _parts(msgspec.structs.replace(empty, profile=profile), attempts)
    ]
    return [
        Concluded(one.profile, str(number), msgspec.structs.replace(one, part=number))
        for number, one in enumerate(facts)
    ]


def _parts(empty: SchedulingPassed, attempts: Sequence[PassAttempt]) -> Iterator[SchedulingPassed]:
    whole = _recorded(empty, attempts)
    if len(attempts) == 1 or len(msgspec.json.encode(whole)) <= MOST_BYTES:
        yield whole
        return
    middle = len(attempts) // 2
    yield from _parts(empty, attempts[:middle])
    yield from _parts(empty, attempts[middle:])


def _recorded(empty: SchedulingPassed, attempts: Sequence[PassAttempt]) -> SchedulingPassed:
    nodes: dict[str, int] = {}
    scores: dict[tuple[int, ...], int] = {}
    refusals: dict[bytes, int] = {}
    first = [one for one in attempts if not one.is_again]
    plugins = sorted({name for one in first for node in one.top for name in node.scores})
    pods = []
    nominated = [
        Nomination(
            one.pod.uid,
            nodes.setdefault(one.preemption.node, len(nodes)),
            tuple(
                Victim(pod.uid, pod.namespace, pod.name, pod.priority)
                for pod in one.preemption.victims
            ),
        )
        for one in attempts
        if one.preemption is not None
    ]
    for one in first:
        top: list[int] = []
        for found in one.top:
            shares = tuple(found.scores.get(name, 0) for name in plugins)
            top += (
                nodes.setdefault(found.node, len(nodes)), scores.setdefault(shares, len(scores)),
            )  # fmt: skip
        refused = -1
        if one.refused or one.reason or not one.node:
            encoded = msgspec.json.encode(_refusal(one))
            refused = refusals.setdefault(encoded, len(refusals))
        node = nodes.setdefault(one.node, len(nodes)) if one.node else -1
        pod = one.pod
        pods.append(
            TriedPod(
                pod.uid, pod.namespace, pod.name, node, one.feasible, refused, tuple(top), one.cards
            )
        )
    return msgspec.structs.replace(
        empty, nodes=tuple(nodes), plugins=tuple(plugins), scores=tuple(scores),
        refusals=tuple(msgspec.json.decode(one, type=Refusal) for one in refusals), pods=tuple(pods),
        again=tuple(one.number for one in attempts if one.is_again), nominated=tuple(nominated),
        cpus={one.pod.uid: one.cpus for one in first if one.node and one.cpus is not None},
    )  # fmt: skip


def _refusal(one: PassAttempt) -> Refusal:
    found = {}
    for plugin, reasons in one.refused.items():
        most = sorted(reasons.items(), key=lambda found: (-found[1], found[0]))[:MOST_REASONS]
        counts: dict[str, int] = {}
        for reason, nodes in most:
            counts[reason[:MOST_LETTERS]] = counts.get(reason[:MOST_LETTERS], 0) + nodes
        found[plugin] = dict(sorted(counts.items()))
    return Refusal(found, one.reason[:MOST_LETTERS])

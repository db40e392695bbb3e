"""Another policy of the scheduler against the record: pods on other nodes, and longer or shorter waits. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from bus.clock import SECOND_US
from reactors.lab.comparison import (  # fmt: skip
    SAME_US,
    By,
    Change,
    Comparison,
    Group,
    Saved,
    around,
    compare,
    interval,
)
from reactors.lab.placements.lives import DAEMON_SET, PodLife
from reactors.lab.placements.trial import PlacementsPlayed
from reactors.lab.placements.world import RULES, Stay

#: The uncertainty of any differing time: a resting pod is tried again at a tick, and is bound two seconds later.
UNSURE_S = 12

Kind = Literal["same", "elsewhere", "sooner", "later", "placed", "not_placed", "evicted"]


class PlacementChange(Change[Stay], frozen=True):
    """A pod and its first stay under trial. ``waited_s``: its wait on record."""

    waited_s: int

    @property
    def life(self) -> PodLife:
        """The pod on record."""
        return self.decision.life


class PlacementGroup(Group[PlacementChange], frozen=True):
    """Pods of one group, with the hours of waiting saved."""

    @property
    def pods(self) -> int:
        """Pods with a wait for a node."""
        return len(self.changes)

    @property
    def waited_s(self) -> int:
        """Pod-seconds of waiting on record."""
        return sum(one.waited_s for one in self.changes)


def outcome(
    played: Sequence[PlacementsPlayed], lives: Iterable[PodLife], *, by: By
) -> Comparison[PlacementChange, PlacementGroup]:
    """The findings of all rules, put together. The first rule must be the likely one. ``lives``: all pods on record."""
    assert played[0].rule == RULES[0]
    known, until_us = list(lives), played[0].until_us
    stays = [_by_pod(one.stays) for one in played]
    changes = [_change(life, stays[0].get(life.uid, []), until_us) for life in known]
    saved = [
        [_saved(one, _waited_s(of_rule.get(one.life.uid, []), until_us), by) for one in changes]
        for of_rule in stays
    ]
    node_s = _node_s([_recorded(one) for one in known], until_us)
    unsure_s = UNSURE_S * sum(one.kind != "same" for one in changes)
    less_s = [node_s - _node_s(one.stays, until_us) for one in played]
    less = interval([(one - unsure_s, one, one + unsure_s) for one in less_s])
    made = compare(changes, saved, by, PlacementGroup)
    return msgspec.structs.replace(made, node_s=node_s, node_less_s=less)


def _saved(change: PlacementChange, waited_s: int, by: By) -> Saved:
    life, seconds = change.life, around(change.waited_s - waited_s, UNSURE_S)
    return Saved(getattr(life, by), life.cpu_milli, life.gpu_milli, seconds)


def _by_pod(stays: Iterable[Stay]) -> dict[str, list[Stay]]:
    found: dict[str, list[Stay]] = {}
    for one in stays:
        found.setdefault(one.life.uid, []).append(one)
    return found


def _recorded(life: PodLife) -> Stay:
    return Stay(life, life.arrived_us, life.node, life.bound_us, life.ended_us)


def _change(life: PodLife, stays: Sequence[Stay], until_us: int) -> PlacementChange:
    first = stays[0] if stays else Stay(life, life.arrived_us)
    kind: Kind = "same"
    if any(one.is_evicted for one in stays):
        kind = "evicted"
    elif bool(first.node) != bool(life.node):
        kind = "placed" if first.node else "not_placed"
    elif abs(first.bound_us - life.bound_us) > SAME_US:
        kind = "later" if first.bound_us > life.bound_us else "sooner"
    elif first.node != life.node:
        kind = "elsewhere"
    return PlacementChange(
        kind, first, life.namespace, life.team, life.bound_us or None, first.bound_us or None,
        _waited_s([_recorded(life)], until_us),
    )  # fmt: skip


def _waited_s(stays: Sequence[Stay], until_us: int) -> int:
    """The time of all waits of a pod."""
    return sum(
        max((one.bound_us or one.ended_us or until_us) // SECOND_US - one.arrived_us // SECOND_US, 0)
        for one in stays
    )  # fmt: skip


def _node_s(stays: Iterable[Stay], until_us: int) -> int:
    """Node-seconds with any of these pods, added up over the nodes."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for one in stays:
        if one.node and one.life.owner != DAEMON_SET:
            spans.setdefault(one.node, []).append(
                (one.bound_us // SECOND_US, (one.ended_us or until_us) // SECOND_US)
            )
    return sum(map(sum, map(_lengths, spans.values())))


def _lengths(spans: list[tuple[int, int]]) -> Iterator[int]:
    end = 0
    for begin, until in sorted(spans):
        yield max(until - max(begin, end), 0)
        end = max(end, until)

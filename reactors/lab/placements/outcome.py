"""Another policy of the scheduler against the record: pods on other nodes, and longer or shorter waits. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from bus.clock import SECOND_US
from reactors.lab.amounts import SAME_US, Amount
from reactors.lab.placements.lives import DAEMON_SET, Life
from reactors.lab.placements.trial import Played
from reactors.lab.placements.world import RULES, Stay

#: So much any time that differs may be longer or shorter: who rests is tried again at a tick, and is bound two seconds later.
UNSURE_S = 12

Kind = Literal["same", "elsewhere", "sooner", "later", "placed", "not_placed", "evicted"]


class Change(msgspec.Struct, frozen=True):
    """What became of a pod, on record and under trial. Times in microseconds UTC, 0 = it was given no node."""

    kind: Kind
    life: Life
    node: str
    bound_us: int


class Group(msgspec.Struct, frozen=True):
    """A policy under trial, for a namespace, a team, or all. ``recorded``, ``tried``: pods that were given a node.

    Waiting in pod-seconds; ``cpu_milli_s`` and ``gpu_milli_s``: what waited less, in milli-core- and milli-GPU-seconds.
    """

    name: str
    pods: int
    recorded: int
    tried: int
    kinds: dict[Kind, int]
    waited_s: int
    waited_less_s: Amount
    cpu_milli_s: Amount
    gpu_milli_s: Amount


class Outcome(msgspec.Struct, frozen=True):
    """A policy under trial. Changes in the order in which pods came; groups by name; ``total`` of all of them.

    ``node_s``: seconds in which nodes had any pod on record but for those of DaemonSets, added up; ``node_less_s``: how many
    fewer these are.
    """

    changes: tuple[Change, ...]
    groups: tuple[Group, ...]
    total: Group
    node_s: int
    node_less_s: Amount


def outcome(
    played: Sequence[Played], lives: Iterable[Life], *, by: Literal["namespace", "team"]
) -> Outcome:
    """What the rules made of the history, put together. The first rule must be the likely one. ``lives``: all pods on record."""
    assert played[0].rule == RULES[0]
    known, until_us = list(lives), played[0].until_us
    stays = [_by_pod(one.stays) for one in played]
    changes = tuple(_change(life, stays[0].get(life.uid, [])) for life in known)
    waits = [[_waited_s(of_rule.get(one.uid, []), until_us) for one in known] for of_rule in stays]

    def group(name: str, at: Sequence[int]) -> Group:
        mine = [changes[place] for place in at]
        kinds: dict[Kind, int] = {}
        for one in mine:
            kinds[one.kind] = kinds.get(one.kind, 0) + 1
        recorded = [_waited_s([_recorded(known[place])], until_us) for place in at]

        def less(weight: Callable[[Life], int]) -> Amount:
            found = []
            for of_rule in waits:
                sure = unsure = 0
                for place, before_s in zip(at, recorded, strict=True):
                    saved_s = before_s - of_rule[place]
                    sure += saved_s * weight(known[place])
                    unsure += (UNSURE_S if saved_s else 0) * weight(known[place])
                found.append((sure - unsure, sure, sure + unsure))
            return _amount(found)

        return Group(
            name=name,
            pods=len(at),
            recorded=sum(bool(one.life.node) for one in mine),
            tried=sum(bool(one.node) for one in mine),
            kinds=kinds,
            waited_s=sum(recorded),
            waited_less_s=less(lambda life: 1),
            cpu_milli_s=less(lambda life: life.cpu_milli),
            gpu_milli_s=less(lambda life: life.gpu_milli),
        )

    places: dict[str, list[int]] = {}
    for place, life in enumerate(known):
        places.setdefault(life.namespace if by == "namespace" else life.team, []).append(place)
    groups = tuple(group(name, at) for name, at in sorted(places.items()))
    node_s = _node_s([_recorded(one) for one in known], until_us)
    unsure_s = UNSURE_S * sum(one.kind != "same" for one in changes)
    less_s = [node_s - _node_s(one.stays, until_us) for one in played]
    return Outcome(
        changes,
        groups,
        group("", range(len(known))),
        node_s,
        _amount([(one - unsure_s, one, one + unsure_s) for one in less_s]),
    )


def _amount(found: Sequence[tuple[int, int, int]]) -> Amount:
    return Amount(min(one[0] for one in found), found[0][1], max(one[2] for one in found))


def _by_pod(stays: Iterable[Stay]) -> dict[str, list[Stay]]:
    found: dict[str, list[Stay]] = {}
    for one in stays:
        found.setdefault(one.life.uid, []).append(one)
    return found


def _recorded(life: Life) -> Stay:
    return Stay(life, life.arrived_us, life.node, life.bound_us, life.ended_us)


def _change(life: Life, stays: Sequence[Stay]) -> Change:
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
    return Change(kind, life, first.node, first.bound_us)


def _waited_s(stays: Sequence[Stay], until_us: int) -> int:
    """How long a pod waited, each time it did."""
    return sum(
        max((one.bound_us or one.ended_us or until_us) // SECOND_US - one.arrived_us // SECOND_US, 0)
        for one in stays
    )  # fmt: skip


def _node_s(stays: Iterable[Stay], until_us: int) -> int:
    """Seconds in which nodes had any of these pods, added up."""
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

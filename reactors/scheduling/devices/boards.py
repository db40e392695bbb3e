"""Boards: the devices of a node, and the room left by its pods.

The devices are those found by Koordinator's agent (Device objects). Without a report they are the node's resources, with equal
cards. The room is computed again after a change of the node, its devices or its pods.

Source: koordinator-sh/koordinator, "Fine-grained device scheduling"; docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from bus.events.constraints import DeviceTerms
from bus.events.devices import FIRST, FUNCTIONS, MOST_MINORS
from projections.cluster import Pod
from projections.cluster.devices import CardGroup, NodeDevices
from projections.cluster.rows import Node
from reactors.scheduling.columns.cards import MOST_CARDS
from reactors.scheduling.columns.device_requests import (
    AMD,
    CORE,
    FPGA,
    GPU,
    HYGON,
    MEMORY,
    NVIDIA,
    RATIO,
    RDMA,
    requested,
)
from reactors.scheduling.columns.nodes import amounts_of
from reactors.scheduling.columns.table import Columns, Placed
from reactors.scheduling.devices.rules import (
    TABLES,
    WHOLE,
    Card,
    Part,
    Rules,
    Scope,
    Table,
    chosen,
    converted,
    filled,
    is_legal,
    per_card,
    summed,
    whole_cards,
)
from reactors.scheduling.devices.terms import with_terms

_MODELS = ("node.koordinator.sh/gpu-model", "kubernetes.io/gpu-model")
_POLICY = "node.koordinator.sh/gpu-partition-policy"
_OLDER, _NEWER = "kubernetes.io/", "koordinator.sh/"
#: An amount above any device's.
_PARTS = frozenset({CORE, RATIO, RDMA, FPGA})

Devices = Mapping[str, Sequence[Card]]
#: Kind of device and number.
At = tuple[str, int]


class Board(msgspec.Struct, frozen=True):
    """The devices of an empty node. ``node`` and ``observed`` are its source rows."""

    node: Node
    observed: NodeDevices | None
    total: dict[str, tuple[Card, ...]]
    #: Groups of its cards allocated together, and whether only groups are allowed.
    table: Table | None = None
    honors: bool = False
    #: By size: those groups, the best ones first, and the link between the cards of one if reported.
    tiers: Mapping[int, Sequence[Sequence[tuple[int, ...]]]] = {}
    bandwidths: dict[tuple[int, ...], int] = {}
    #: The distance between its cards; None = not reported.
    scope: Scope | None = None
    #: By kind and number: the PCIe switch of a device, and its labels.
    switches: dict[At, str] = {}
    labels: dict[At, dict[str, str]] = {}
    #: Its virtual functions, grouped by equal labels.
    functions: dict[At, tuple[tuple[dict[str, str], tuple[int, ...]], ...]] = {}

    def switches_of(self, kind: str) -> dict[int, str]:
        """By number: the PCIe switches of devices of one kind."""
        return {minor: at for (one, minor), at in self.switches.items() if one == kind}


class Kept(msgspec.Struct, frozen=True):
    """The room left on a node's devices, until the node changes. ``over``: pods on devices without room for them.

    ``functions`` are the virtual functions held by pods.
    """

    layout: int
    changed_at: int
    board: Board
    devices: Devices
    over: frozenset[str]
    functions: frozenset[int] = frozenset()


def terms_of(pod: Pod, rules: Rules) -> DeviceTerms | None:
    """A pod's device terms beyond its requests; Koordinator 1.0 had no such terms."""
    found = pod.constraints
    return found.devices if found is not None and rules == "now" else None


def parts_of(pod: Pod, rules: Rules) -> dict[str, Part]:
    """By kind of device the part of a pod; meaningless requests are left out."""
    terms = terms_of(pod, rules)
    parts = _requested(pod, rules)
    return parts if terms is None else with_terms(parts, terms)


def _requested(pod: Pod, rules: Rules) -> dict[str, Part]:
    found = requested(pod.demand)
    return {
        kind: per_card(converted(found[kind]), rules)
        for kind in FIRST
        if kind in found and is_legal(found[kind], rules)
    }


def kept(columns: Columns, row: int) -> Kept:
    """The room left on a node's devices: pods with named devices count first, then the others, in the order of their starts."""
    tables: dict[int, Kept] = columns.tables.setdefault("device_boards", {})
    known, changed_at = tables.get(row), int(columns.changed_at[row])
    if known is not None and (known.layout, known.changed_at) == (columns.layout, changed_at):
        return known
    node, observed = columns.nodes[row], columns.facts.devices(columns.names[row])
    board = known.board if known is not None else None
    if board is None or board.node is not node or board.observed is not observed:
        board = board_of(node, observed)
    used, named, claimed = _used(board, columns.placed_on(row))
    whole = {
        (kind, card.minor): card.total for kind, cards in board.total.items() for card in cards
    }
    full = {
        at for at, amounts in used.items()
        if any(amount > whole.get(at, {}).get(name, 0) for name, amount in amounts.items())
    }  # fmt: skip
    over = frozenset(
        uid
        for uid, ats in named.items()
        if not full.isdisjoint(ats) or not whole.keys() >= set(ats)
    )
    for at, amounts in claimed.items():
        used[at] = summed((used.get(at, {}), amounts))
    devices = {kind: _left(cards, kind, used) for kind, cards in board.total.items()}
    functions, doubled = _functions(board, columns.placed_on(row))
    found = tables[row] = Kept(
        columns.layout, changed_at, board, devices, over | doubled, functions
    )
    return found


def _functions(board: Board, placed: Sequence[Placed]) -> tuple[frozenset[int], frozenset[str]]:
    """The virtual functions held by pods, and the pods decided to get one held by another pod or missing on the node."""
    holders: dict[int, list[Placed]] = {}
    for one in placed:
        for number in one.cards:
            if number >= FUNCTIONS:
                holders.setdefault(number, []).append(one)
    there = {
        number for groups in board.functions.values() for _, numbers in groups for number in numbers
    } if holders else ()  # fmt: skip
    # Any author of pods may write a claim to a device: it takes nothing from a pod with a decision for it.
    return frozenset(holders), frozenset(
        one.pod.uid
        for number, several in holders.items()
        for one in several
        if not one.is_said and (number not in there or sum(not each.is_said for each in several) > 1)
    )  # fmt: skip


def _used(
    board: Board, placed: Sequence[Placed]
) -> tuple[dict[At, dict[str, int]], dict[str, list[At]], dict[At, dict[str, int]]]:
    """The holdings of each device, by uid the devices named by decisions, and pods' claims to devices of others.

    A claim to a device of another pod may be right, as a decided pod may never come. So it counts there, and elsewhere too.
    """
    used: dict[At, dict[str, int]] = {}
    claimed: dict[At, dict[str, int]] = {}
    named: dict[str, list[At]] = {}
    total = board.total
    there = {kind: {card.minor for card in cards} for kind, cards in total.items()}
    memory = {card.minor: card.total.get(MEMORY, 0) for card in total["gpu"]}
    for one in sorted(placed, key=_trust):
        for kind, ways in _held(one.pod, one.terms).items():
            first, (now, then) = FIRST[kind], ways[:2]
            minors = [card - first for card in one.cards if first <= card < first + MOST_MINORS]
            part = next((part for part in reversed(ways) if part.is_on(len(minors))), now)
            is_named = part.is_on(len(minors))
            if is_named and not one.is_said:
                named.setdefault(one.pod.uid, []).extend((kind, minor) for minor in minors)
                is_named = all(minor in there[kind] for minor in minors)
            elif is_named:
                is_named = _have_room(_left(total[kind], kind, used), minors, part)
                for minor in () if is_named else minors:
                    size = memory.get(minor, 0) if kind == "gpu" else 0
                    amounts = filled(part.amounts, size)
                    claimed[kind, minor] = summed((claimed.get((kind, minor), {}), amounts))
            if not is_named:
                left = _left(total[kind], kind, used)
                minors = list(chosen(part, left))
                if not minors and (older := chosen(then, left)):
                    part, minors = then, list(older)
                # It exists and holds a device, of unknown number: the devices with the most room are assumed.
                minors = minors or [one.minor for one in sorted(left, key=_room)[: part.count]]
            for minor in minors:
                at = (kind, minor)
                size = memory.get(minor, 0) if kind == "gpu" else 0
                used[at] = summed((used.get(at, {}), filled(part.amounts, size)))
    return used, named, claimed


def _trust(one: Placed) -> tuple[bool, bool, int, str]:
    """The order of trust: devices named by a decision first, then those of an annotation, writable for tenants."""
    return not one.cards, one.is_said, one.pod.started_us, one.pod.uid


def _have_room(cards: Sequence[Card], minors: Sequence[int], part: Part) -> bool:
    there = {card.minor: card for card in cards}
    return all(minor in there and there[minor].takes(part.amounts) for minor in minors)


def _held(pod: Pod, terms: DeviceTerms | None) -> dict[str, Sequence[Part]]:
    """By kind: the part of each card by present rules, by older rules and by its terms, as any of them may have placed it."""
    asked, now, then = requested(pod.demand), _requested(pod, "now"), _requested(pod, "v1.0")
    found = dict[str, Sequence[Part]]()
    wanted = with_terms(now, terms) if terms is not None else {}
    for kind in FIRST:
        if kind in asked:
            part = now.get(kind) or then.get(kind) or whole_cards(asked[kind], kind)
            ways = (part, then.get(kind) or part)
            found[kind] = (*ways, wanted[kind]) if kind in wanted else ways
    return found


def _room(card: Card) -> tuple[int, int]:
    return -sum(card.free.get(name, 0) for name in (CORE, RATIO, RDMA, FPGA)), card.minor


def _left(cards: Sequence[Card], kind: str, used: Mapping[At, Mapping[str, int]]) -> tuple[Card, ...]:  # fmt: skip
    found = []
    for card in cards:
        taken = used.get((kind, card.minor), {})
        free = {name: max(0, amount - taken.get(name, 0)) for name, amount in card.total.items()}
        found.append(Card(card.minor, card.total, free))
    return tuple(found)


def board_of(node: Node, devices: NodeDevices | None) -> Board:
    """The devices of a node."""
    total = _offered(node) if devices is None else _found(devices)
    labels = node.labels | node.further_labels
    found = devices.labels.get("model", "") if devices is not None else ""
    model = next((labels[key] for key in _MODELS if key in labels), found or node.model or "")
    minors = tuple(card.minor for card in total["gpu"])
    table = TABLES.get(model) if minors == tuple(range(8)) else None
    tiers: Mapping[int, Sequence[Sequence[tuple[int, ...]]]]
    tiers, bandwidths = {size: (groups,) for size, groups in (table or {}).items()}, {}
    if devices is not None and devices.partitions:
        table = {
            size: [one.minors for one in groups] for size, groups in devices.partitions.items()
        }
        tiers = {size: _tiers(groups) for size, groups in devices.partitions.items()}
        groups = chain.from_iterable(devices.partitions.values())
        bandwidths = {one.minors: one.bandwidth for one in groups if one.bandwidth}
    honors = table is not None and labels.get(_POLICY) == "Honor"
    if devices is None:
        return Board(node, devices, total, table, honors, tiers)
    switches = {(one.type, one.minor): one.switch for one in devices.devices if one.switch}
    labelled = {(one.type, one.minor): one.labels for one in devices.devices if one.labels}
    functions = {(one.type, one.minor): one.functions for one in devices.devices if one.functions}
    return Board(
        node, devices, total, table, honors, tiers, bandwidths, _scope(devices, minors), switches, labelled, functions
    )  # fmt: skip


def _tiers(groups: Iterable[CardGroup]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    found: dict[int, list[tuple[int, ...]]] = {}
    for one in groups:
        found.setdefault(one.score, []).append(one.minors)
    return tuple(tuple(found[score]) for score in sorted(found, reverse=True))


def _found(devices: NodeDevices) -> dict[str, tuple[Card, ...]]:
    total: dict[str, list[Card]] = {kind: [] for kind in FIRST}
    for one in devices.devices:
        amounts = {
            name: min(amount, WHOLE) if name in _PARTS else amount
            for name, amount in one.amounts.items()
        }
        total[one.type].append(Card(one.minor, amounts, amounts))
    return {kind: tuple(cards) for kind, cards in total.items()}


def _scope(devices: NodeDevices, minors: tuple[int, ...]) -> Scope | None:
    """NUMA nodes, and their PCIe switches, as scopes of cards."""
    numa: dict[int, dict[str, list[int]]] = {}
    for one in devices.devices:
        if one.type == "gpu" and one.numa >= 0:
            numa.setdefault(one.numa, {}).setdefault(one.switch, []).append(one.minor)
    inner = []
    for at in sorted(numa):
        switches = tuple(Scope(tuple(numa[at][one]), 3) for one in sorted(numa[at]) if one)
        minors_here = sorted(minor for several in numa[at].values() for minor in several)
        inner.append(Scope(tuple(minors_here), 2, switches))
    return Scope(minors, 1, tuple(inner)) if inner else None


def _offered(node: Node) -> dict[str, tuple[Card, ...]]:
    """The devices offered by a node as resources; older names are read only in the absence of the newer ones."""
    offered = amounts_of(node.allocatable)
    older = {
        name: _NEWER + name.removeprefix(_OLDER) for name in offered if name.startswith(_OLDER)
    }
    amounts = {newer: offered[name] for name, newer in older.items()} | offered
    count = min(_cards_of(amounts), MOST_CARDS)
    whole = {CORE: WHOLE, RATIO: WHOLE, MEMORY: amounts.get(MEMORY, 0) // max(count, 1)}
    total = {"gpu": tuple(Card(minor, whole, whole) for minor in range(count))}
    for kind, name in (("rdma", RDMA), ("fpga", FPGA)):
        own = {name: WHOLE}
        number = min(amounts.get(name, 0) // WHOLE, MOST_CARDS)
        total[kind] = tuple(Card(minor, own, own) for minor in range(number))
    return total


def _cards_of(amounts: Mapping[str, int]) -> int:
    for name in (NVIDIA, AMD, HYGON):
        if amounts.get(name):
            return amounts[name]
    return next((amounts[name] // WHOLE for name in (CORE, GPU, RATIO) if amounts.get(name)), 0)

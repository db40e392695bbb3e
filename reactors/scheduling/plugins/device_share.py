"""DeviceShare: parts of GPUs and whole ones, RDMA devices and FPGAs, by Koordinator's rules.

The devices of a node are those that it offers as resources, its cards being alike. A profile names it; the default profile
does not. Devices from 1,000 on are those for RDMA, from 2,000 on FPGAs.

Source: koordinator-sh/koordinator, "Fine-grained device scheduling"; docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from projections.cluster import Pod
from projections.cluster.rows import Node
from reactors.scheduling.cards import MOST_CARDS
from reactors.scheduling.columns import Bools, Columns, Ints, Rows
from reactors.scheduling.contract import ONE_CHANGE, SKIP, Code, Cycle, Refused, Status, scaled
from reactors.scheduling.device_rules import (
    AMD,
    CORE,
    FPGA,
    GPU,
    HYGON,
    MEMORY,
    NVIDIA,
    RATIO,
    RDMA,
    TABLES,
    WHOLE,
    Card,
    Part,
    Rules,
    Strategy,
    Table,
    chosen,
    converted,
    filled,
    is_legal,
    node_score,
    per_card,
    requested,
    summed,
    whole_cards,
)
from reactors.scheduling.hints import Hint
from reactors.scheduling.node_columns import amounts_of

REASON = "Insufficient {} devices"
ILLEGAL = "the requests of {} devices are none that Koordinator knows"
TAKEN = "its devices were given to another pod meanwhile"
#: The first number of the devices of each kind.
FIRST = {"gpu": 0, "rdma": 1_000, "fpga": 2_000}
_MODELS = ("node.koordinator.sh/gpu-model", "kubernetes.io/gpu-model")
_POLICY = "node.koordinator.sh/gpu-partition-policy"

Devices = Mapping[str, Sequence[Card]]


class _Board(msgspec.Struct, frozen=True):
    """What a node has when nobody uses it, and which groups of its cards are given together."""

    total: dict[str, tuple[Card, ...]]
    table: Table | None
    honors: bool


class _Kept(msgspec.Struct, frozen=True):
    """What is left of a node's devices, as long as it stays as it is. ``over``: pods whose devices have no room for them."""

    layout: int
    changed_at: int
    board: _Board
    devices: Devices
    over: frozenset[str]


class DeviceShare(msgspec.Struct, frozen=True):
    """Gives pods parts of cards. ``rules``: of which Koordinator; ``strategy``: spread (LeastAllocated) or pack."""

    name: ClassVar[str] = "DeviceShare"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE})

    strategy: Strategy = "LeastAllocated"
    rules: Rules = "now"

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Requests that mean nothing are refused; without any request there is nothing to say."""
        found = requested(cycle.pod.demand)
        for kind in sorted(found):
            if not is_legal(found[kind], self.rules):
                return Status(Code.UNRESOLVABLE, ILLEGAL.format(kind))
        return None if found else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes without the room on so many of their devices."""
        parts, columns = _parts(cycle.pod, self.rules), cycle.columns
        at = np.arange(len(columns.nodes))[rows].tolist()
        refused = []
        for kind, part in parts.items():
            lacking: Bools = np.array(
                [not self._of(columns, row, kind, part) for row in at], np.bool_
            )
            if lacking.any():
                never = [
                    len(_kept(columns, row).board.total.get(kind, ())) < part.count for row in at
                ]
                refused.append(Refused(REASON.format(kind), lacking, lacking & np.array(never, np.bool_)))  # fmt: skip
        return refused

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Room on devices."""
        parts, columns = _parts(cycle.pod, self.rules), cycle.columns
        lacking = [kind for kind, part in parts.items() if not self._of(columns, row, kind, part)]
        return f"free {' and '.join(lacking) or 'other'} devices of node {columns.names[row]}"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """How full the devices would be, over all kinds."""
        parts, columns = _parts(cycle.pod, self.rules), cycle.columns
        at = np.arange(len(columns.nodes))[rows].tolist()
        found = [node_score(self.strategy, parts, _kept(columns, row).devices) for row in at]
        return np.array(found, np.int64)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """As parts of the best."""
        return scaled(scores)

    def cards(self, cycle: Cycle, row: int) -> tuple[int, ...]:
        """The devices of a pod on its node."""
        return tuple(
            FIRST[kind] + minor
            for kind, part in _parts(cycle.pod, self.rules).items()
            for minor in self._of(cycle.columns, row, kind, part)
        )

    def reserve(self, cycle: Cycle, row: int) -> str:
        """Refused where others were counted on the same devices since they were chosen."""
        return TAKEN if cycle.pod.uid in _kept(cycle.columns, row).over else ""

    def unreserve(self, cycle: Cycle) -> None:
        """The columns give devices back with the pod."""

    def _of(self, columns: Columns, row: int, kind: str, part: Part) -> tuple[int, ...]:
        kept = _kept(columns, row)
        board, cards = kept.board, kept.devices.get(kind, ())
        if kind != "gpu":
            return chosen(part, cards, self.strategy)
        return chosen(part, cards, self.strategy, table=board.table, honors=board.honors)


def _parts(pod: Pod, rules: Rules) -> dict[str, Part]:
    """By kind of device; what means nothing is left out."""
    found = requested(pod.demand)
    return {
        kind: per_card(converted(found[kind]), rules)
        for kind in FIRST
        if kind in found and is_legal(found[kind], rules)
    }


def _board(node: Node) -> _Board:
    offered = amounts_of(node.allocatable)
    amounts = {name.replace("kubernetes.io/gpu", "koordinator.sh/gpu"): offered[name] for name in sorted(offered)}  # fmt: skip
    count = min(_cards_of(amounts), MOST_CARDS)
    whole = {CORE: WHOLE, RATIO: WHOLE, MEMORY: amounts.get(MEMORY, 0) // max(count, 1)}
    total = {"gpu": tuple(Card(minor, whole, whole) for minor in range(count))}
    for kind, name in (("rdma", RDMA), ("fpga", FPGA)):
        own = {name: WHOLE}
        number = min(amounts.get(name, 0) // WHOLE, MOST_CARDS)
        total[kind] = tuple(Card(minor, own, own) for minor in range(number))
    labels = node.labels | node.further_labels
    model = next((labels[key] for key in _MODELS if key in labels), node.model or "")
    table = TABLES.get(model) if count == 8 else None
    return _Board(total, table, table is not None and labels.get(_POLICY) == "Honor")


def _cards_of(amounts: Mapping[str, int]) -> int:
    for name in (NVIDIA, AMD, HYGON):
        if amounts.get(name):
            return amounts[name]
    return next((amounts[name] // WHOLE for name in (CORE, GPU, RATIO) if amounts.get(name)), 0)


def _kept(columns: Columns, row: int) -> _Kept:
    """What pods leave of a node's devices: those whose devices a decision named, then the others, in the order of their starts."""
    tables: dict[int, _Kept] = columns.tables.setdefault(DeviceShare.name, {})
    known, changed_at = tables.get(row), int(columns.changed_at[row])
    if known is not None and (known.layout, known.changed_at) == (columns.layout, changed_at):
        return known
    used: dict[tuple[str, int], dict[str, int]] = {}
    board = _board(columns.nodes[row])
    total = board.total
    memory = next((one.total[MEMORY] for one in total["gpu"]), 0)
    named: dict[str, list[tuple[str, int]]] = {}
    placed = sorted(columns.placed_on(row), key=lambda one: (not one.cards, one.pod.started_us, one.pod.uid))  # fmt: skip
    for one in placed:
        for kind, (now, then) in _held(one.pod).items():
            first = FIRST[kind]
            minors = [card - first for card in one.cards if first <= card < first + 1_000]
            part = then if len(minors) == then.count else now
            is_named = len(minors) == part.count
            if not is_named:
                left = _left(total[kind], kind, used)
                minors = list(chosen(part, left))
                if not minors and (older := chosen(then, left)):
                    part, minors = then, list(older)
                # It is there, and holds something, wherever that is: of the devices with the most room.
                minors = minors or [one.minor for one in sorted(left, key=_room)[: part.count]]
            for minor in minors:
                at = (kind, minor)
                used[at] = summed((used.get(at, {}), filled(part.amounts, memory)))
                if is_named:
                    named.setdefault(one.pod.uid, []).append(at)
    devices = {kind: _left(cards, kind, used) for kind, cards in total.items()}
    whole = {(kind, card.minor): card.total for kind, cards in total.items() for card in cards}
    full = {
        at for at, amounts in used.items()
        if any(amount > whole.get(at, {}).get(name, 0) for name, amount in amounts.items())
    }  # fmt: skip
    over = frozenset(uid for uid, ats in named.items() if not full.isdisjoint(ats))
    found = tables[row] = _Kept(columns.layout, changed_at, board, devices, over)
    return found


def _held(pod: Pod) -> dict[str, tuple[Part, Part]]:
    """By kind: the part of each card by the rules of now and then; a profile may have placed it by either."""
    asked, now, then = requested(pod.demand), _parts(pod, "now"), _parts(pod, "v1.0")
    found = {}
    for kind in FIRST:
        if kind in asked:
            part = now.get(kind) or then.get(kind) or whole_cards(asked[kind], kind)
            found[kind] = (part, then.get(kind) or part)
    return found


def _room(card: Card) -> tuple[int, int]:
    return -sum(card.free.get(name, 0) for name in (CORE, RATIO, RDMA, FPGA)), card.minor


def _left(cards: Sequence[Card], kind: str, used: Mapping[tuple[str, int], Mapping[str, int]]) -> tuple[Card, ...]:  # fmt: skip
    found = []
    for card in cards:
        taken = used.get((kind, card.minor), {})
        free = {name: max(0, amount - taken.get(name, 0)) for name, amount in card.total.items()}
        found.append(Card(card.minor, card.total, free))
    return tuple(found)

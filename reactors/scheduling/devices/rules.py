"""Shared GPUs by Koordinator's rules: the meaning of requests, the part of a pod, and its cards. Pure.

Amounts are whole numbers: hundredths of a card, bytes of its memory, or cards. A share never spans two cards.

Source: koordinator-sh/koordinator, "Fine-grained device scheduling"; docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from reactors.scheduling.columns.device_requests import (
    AMD,
    CORE,
    FPGA,
    GPU,
    HYGON,
    KINDS,
    MEMORY,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    NVIDIA,
    RATIO,
    RDMA,
    SHARED,
    Amounts,
)

Rules = Literal["now", "v1.0"]
Strategy = Literal["LeastAllocated", "MostAllocated"]
#: Groups of cards allocated together, by their size.
Table = Mapping[int, Sequence[tuple[int, ...]]]

WHOLE = 100

_NAMES = frozenset(name for names in KINDS.values() for name in names)
_WHOLE_CARDS = (NVIDIA, AMD, HYGON)
#: Amounts in whole cards from one card on.
_PERCENT = frozenset({GPU, FPGA, RDMA})

_PLAIN = [frozenset({name}) for name in (*_WHOLE_CARDS, GPU, FPGA, RDMA)]
_PARTS = [frozenset(names) for names in ((MEMORY,), (RATIO,), (CORE, MEMORY), (CORE, RATIO), (NPU_CORE, RATIO))]  # fmt: skip
_SHARES = [frozenset({SHARED, *names}) for names in ((MEMORY,), (RATIO,), (CORE, MEMORY), (CORE, RATIO))]  # fmt: skip
_NPU_SHARES = [frozenset({SHARED, NPU_CORE, NPU_CPU, MEMORY, *more}) for more in ((), (NPU_DVPP,))]
#: The resources of Koordinator 1.0, and their legal sets.
_KNOWN_THEN = frozenset({NVIDIA, GPU, CORE, MEMORY, RATIO, RDMA, FPGA})
_LEGAL_THEN = [frozenset(names) for names in ((NVIDIA,), (GPU,), (CORE, MEMORY), (CORE, RATIO), (RDMA,), (FPGA,))]  # fmt: skip

#: The boards of eight cards with known groups, by the model in the node's label.
_HOPPER: Table = {
    size: [tuple(range(first, first + size)) for first in range(0, 8, size)]
    for size in (1, 2, 4, 8)
}
TABLES: dict[str, Table] = dict.fromkeys(("H100", "H800", "H20"), _HOPPER)


def is_legal(request: Amounts, rules: Rules = "now") -> bool:
    """Whether a request of one kind of device has a meaning. Names of other resources are ignored."""
    known = _NAMES if rules == "now" else _KNOWN_THEN
    names = frozenset(request) & known
    in_whole = _PERCENT if rules == "now" else _PERCENT | {CORE, RATIO}
    if not all(_is_whole(request[name]) for name in names & in_whole):
        return False
    if rules != "now":
        return names in _LEGAL_THEN
    if names in _PARTS:
        return all(_is_whole(request[name]) for name in names & {CORE, RATIO})
    if names in _SHARES:
        is_something = all(request[name] >= request[SHARED] for name in names)
        return is_something and all(
            _divides(request[SHARED], request[name]) for name in names & {CORE, RATIO}
        )
    if names in _NPU_SHARES:
        return request[SHARED] == 1 and request.get(NPU_DVPP, 0) <= WHOLE
    return names in _PLAIN


def _is_whole(amount: int) -> bool:
    return amount <= WHOLE or amount % WHOLE == 0


def _divides(cards: int, amount: int) -> bool:
    return cards > 0 and amount % cards == 0 and amount // cards <= WHOLE


def converted(request: Amounts) -> dict[str, int]:
    """A legal request in parts of cards."""
    for name in _WHOLE_CARDS:
        if name in request:
            return {CORE: WHOLE * request[name], RATIO: WHOLE * request[name]}
    if GPU in request:
        return {CORE: request[GPU], RATIO: request[GPU]}
    return {name: amount for name, amount in request.items() if name in _NAMES}


def is_many(request: Amounts, by: str) -> bool:
    """Whether a request is for several whole cards."""
    amount = request.get(by, 0)
    return amount > WHOLE and amount % WHOLE == 0


def whole_cards(request: Amounts, kind: str) -> Part:
    """The holding of a pod on a node with a meaningless request: whole devices, one at least."""
    named = max((request.get(name, 0) for name in _WHOLE_CARDS), default=0)
    parts = max((request.get(name, 0) for name in (CORE, RATIO, GPU, RDMA, FPGA)), default=0)
    amounts = {CORE: WHOLE, RATIO: WHOLE} if kind == "gpu" else {RDMA if kind == "rdma" else FPGA: WHOLE}  # fmt: skip
    return Part(amounts, max(named, -(-parts // WHOLE), 1), is_share=False)


class Part(msgspec.Struct, frozen=True):
    """A pod's part of each of ``count`` devices of one kind; ``is_share``: others may share the card."""

    amounts: dict[str, int]
    count: int
    is_share: bool
    #: The part is on more devices if there are more: on ``all`` fitting ones, or on one at each of the ``switches`` of its cards.
    more: Literal["", "all", "switches"] = ""

    def is_on(self, devices: int) -> bool:
        """Whether a pod may have its part on so many devices."""
        return devices == self.count or (bool(self.more) and devices > self.count)


def per_card(request: Amounts, rules: Rules = "now") -> Part:
    """A converted request on each card."""
    by = next((name for name in (RDMA, FPGA) if name in request), CORE if rules != "now" else RATIO)
    count = request.get(SHARED, 0) if rules == "now" else 0
    if count <= 0:
        count = request.get(by, 0) // WHOLE if is_many(request, by) else 1
    left_out = {SHARED} if RATIO not in request else {SHARED, MEMORY}
    amounts = {name: one // count for name, one in request.items() if name not in left_out}
    is_share = amounts[RATIO] < WHOLE if RATIO in amounts else MEMORY in amounts
    return Part(amounts, count, is_share)


def filled(amounts: Amounts, memory: int) -> dict[str, int]:
    """Amounts completed for a card of ``memory`` bytes: memory from its percentage, and the reverse."""
    found = dict(amounts)
    if RATIO in found and MEMORY not in found:
        found[MEMORY] = found[RATIO] * memory // WHOLE
    elif MEMORY in found and RATIO not in found:
        # Koordinator and the readers of its parts divide as floats do.
        found[RATIO] = int(found[MEMORY] / memory * WHOLE) if memory else 0
    return found


class Card(msgspec.Struct, frozen=True):
    """A device of a node: its amounts in all, {} = the device is unhealthy, and its free amounts."""

    minor: int
    total: dict[str, int]
    free: dict[str, int]

    def takes(self, amounts: Amounts) -> bool:
        """Whether the part of a pod is free here."""
        needs = filled(amounts, self.total.get(MEMORY, 0))
        return bool(self.total) and all(self.free.get(name, 0) >= needs[name] for name in needs)

    @property
    def is_used(self) -> bool:
        """Whether a pod has a part of it."""
        return self.free != self.total


#: The amounts counted in scores.
SCORED = (RATIO, MEMORY, RDMA, FPGA)


def score(
    strategy: Strategy, request: Amounts, total: Amounts, free: Amounts, names: Iterable[str] = SCORED
) -> int:  # fmt: skip
    """The fill of a card or a node, 0 to 100; reversed by the strategy for the least allocated one."""
    found = []
    for name in names:
        whole = total.get(name, 0)
        if whole <= 0:
            continue
        left = free.get(name, 0)
        used = whole - left + request.get(name, 0) if whole >= left else whole
        room = max(whole - used, 0) if strategy == "LeastAllocated" else min(used, whole)
        found.append(room * 100 // whole)
    return sum(found) // len(found) if found else 0


def summed(several: Iterable[Amounts]) -> dict[str, int]:
    """The sum by name."""
    found: dict[str, int] = {}
    for amounts in several:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0) + amount
    return found


def node_resources(cards: Iterable[Amounts], vendor: str = "", *, with_shared: bool = False) -> dict[str, int]:  # fmt: skip
    """The resources of a node by the amounts of its cards, {} of an unhealthy one; {} = all are broken, and it offers nothing.

    Cards of NVIDIA, and those without a vendor, are offered as ``gpu``, too. ``with_shared`` offers ``gpu.shared`` by the number
    of healthy cards.
    """
    healthy = [one for one in cards if one]
    if not healthy:
        return {}
    found = summed(healthy)
    if vendor.lower() in ("", "nvidia"):
        found[GPU] = found.get(CORE, 0)
    if with_shared:
        found[SHARED] = len(healthy) * WHOLE
    return found


def ordered(scores: Mapping[int, int], switch_of: Mapping[int, str], near: Collection[str]) -> list[int]:  # fmt: skip
    """Cards, the best first, by score and number; those at a switch of ``near`` before the others, of each switch one in turn."""
    best = sorted(scores, key=lambda minor: (-scores[minor], minor))
    turns: dict[int, int] = {}
    at_switch: dict[str, int] = {}
    for minor in best:
        switch = switch_of.get(minor)
        if switch is not None and switch in near:
            turns[minor] = at_switch[switch] = at_switch.get(switch, -1) + 1
    rest = [minor for minor in best if minor not in turns]
    return sorted(turns, key=lambda minor: (turns[minor], -scores[minor], minor)) + rest


class Scope(msgspec.Struct, frozen=True):
    """Cards near each other, and the nearer ones among them. ``level``: 1 the node, 2 a NUMA node, 3 a switch."""

    minors: tuple[int, ...]
    level: int = 1
    inner: tuple[Scope, ...] = ()


class _Found(msgspec.Struct, frozen=True):
    """Cards within one scope: its depth, the number of used scopes around it, and the score of a share."""

    rank: tuple[int, int, int]
    minors: tuple[int, ...]


def near(
    scope: Scope, part: Part, scores: Mapping[int, int], used: Collection[int], level: int
) -> tuple[int, ...]:
    """Cards of the nearest scope with enough of them, of several a used one; () = no scope has.

    ``scores`` has the cards with room for the part; ``level`` is the widest scope allowed.
    """
    found = _near(scope, part, scores, used, level, (0, 0))
    return found.minors if found else ()


def _near(
    scope: Scope, part: Part, scores: Mapping[int, int], used: Collection[int], level: int, above: tuple[int, int]
) -> _Found | None:  # fmt: skip
    if len(scope.minors) < part.count:
        return None
    here = (above[0] + 1, above[1] + any(minor in used for minor in scope.minors))
    best: _Found | None = None
    for one in scope.inner:
        found = _near(one, part, scores, used, level, here)
        if found is not None and (best is None or found.rank > best.rank):
            best = found
    if best is not None or level > scope.level:
        return best
    fitting = [minor for minor in scope.minors if minor in scores]
    if len(fitting) < part.count:
        return None
    if not part.is_share:
        return _Found((*here, 0), tuple(fitting[: part.count]))
    first = max(fitting, key=lambda minor: (scores[minor], -minor))
    return _Found((*here, scores[first]), (first,))


def scope_of(minors: Collection[int], table: Table) -> Scope:
    """The groups of a board as scopes, each in the next larger one."""
    sizes = sorted((size for size in table if 1 < size < len(minors)), reverse=True)
    return _scope(tuple(sorted(minors)), table, sizes)


def _scope(minors: tuple[int, ...], table: Table, sizes: Sequence[int]) -> Scope:
    if not sizes:
        return Scope(minors)
    left, within = set(minors), []
    # A table may have overlapping groups: of these the first.
    for one in table[sizes[0]]:
        if left.issuperset(one):
            within.append(one)
            left.difference_update(one)
    return Scope(minors, 1, tuple(_scope(one, table, sizes[1:]) for one in within))


def group(
    table: Table, count: int, whole: Collection[int], tiers: Sequence[Sequence[tuple[int, ...]]] | None = None
) -> tuple[int, ...]:  # fmt: skip
    """The group of ``count`` cards, all among the idle ones, leaving the most large groups whole; () = there is none.

    With ``tiers``, only the first tier with such a group counts.
    """

    def left(taken: tuple[int, ...]) -> list[int]:
        idle = set(whole) - set(taken)
        sizes = sorted((size for size in table if size >= max(count, 2)), reverse=True)
        return [sum(set(one) <= idle for one in table[size]) for size in sizes]

    for tier in (table.get(count, ()),) if tiers is None else tiers:
        found = max((one for one in tier if set(one) <= set(whole)), key=left, default=())
        if found:
            return found
    return ()


def chosen(
    part: Part, cards: Sequence[Card], strategy: Strategy = "LeastAllocated", *, table: Table | None = None,
    honors: bool = False, scope: Scope | None = None, level: int = 0, switch_of: Mapping[int, str] = {},
    at_switch: Collection[str] = (), tiers: Sequence[Sequence[tuple[int, ...]]] | None = None,
) -> tuple[int, ...]:  # fmt: skip
    """The numbers of a pod's cards of one kind; () = they do not have the room.

    Whole cards are a group of the board's ``table`` if one is idle; on a node with ``honors`` only groups are allowed. Cards at a
    switch of ``at_switch`` are chosen before others.
    """
    scores = {
        one.minor: score(strategy, part.amounts, one.total, one.free) for one in cards if one.takes(part.amounts)
    }  # fmt: skip
    if len(scores) < part.count:
        return ()
    used = {one.minor for one in cards if one.is_used}
    if table and not part.is_share:
        found = group(table, part.count, scores.keys() - used, tiers)
        if found or honors:
            return found
    if scope is None and table:
        scope = scope_of([one.minor for one in cards], table)
    if scope is not None and (level or not (part.is_share and part.count > 1)):
        if part.is_share and part.count > 1:
            return ()
        return near(scope, part, scores, used, level)
    if level > 1:
        return ()
    return tuple(ordered(scores, switch_of, at_switch)[: part.count])

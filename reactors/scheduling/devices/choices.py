"""The choice of a pod's devices on a node: of each kind, and near each other on request. Pure.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/deviceshare; docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from bus.events.constraints import DeviceHint, DeviceTerms, selects
from reactors.scheduling.devices.boards import Board, Kept
from reactors.scheduling.devices.rules import Card, Part, Strategy, chosen, ordered, score
from reactors.scheduling.devices.terms import (
    LEVELS,
    hint_of,
    joint_kinds,
    tiers_of,
    wanted,
    within,
)

NO_TERMS = DeviceTerms()
#: Chooses the card of a share among these, for a packing plugin; () = the rules choose.
Packed = Callable[[str, Part, Sequence[Card]], tuple[int, ...]]


def not_packed(kind: str, part: Part, cards: Sequence[Card]) -> tuple[int, ...]:
    """Leaves the choice to the rules."""
    return ()


def functions(here: Kept, kind: str, hint: DeviceHint, minor: int) -> list[int]:
    """The virtual functions of a device still free for a pod."""
    wants = hint.functions
    return [
        one
        for labels, numbers in here.board.functions.get((kind, minor), ())
        for one in numbers
        if wants is not None and selects(wants, labels) and one not in here.functions
    ]


def choice(
    known: Kept, parts: Mapping[str, Part], terms: DeviceTerms, strategy: Strategy, packed: Packed = not_packed
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    """By kind: the numbers of a pod's devices on a node; () without the room, or against the terms of the pod."""
    joint = joint_kinds(parts, terms)
    together = joint if terms.same_switch and len(joint) > 1 else []
    order = [*joint, *(kind for kind in parts if kind not in joint)]
    board, here = known.board, {kind: _wanted(known, terms, kind) for kind in order}
    found: dict[str, tuple[int, ...]] = {}
    # A pod may request more devices than any node has.
    wants = (min(parts[kind].count, max(len(here[kind]), 1)) for kind in together[1:])
    # The first kind chooses among all switches. If the others are too few there, it chooses again among the switches with more of
    # them.
    for least in range(1, max(wants, default=1) + 1):
        near = set[str]()
        for kind in order:
            part, cards, switches = parts[kind], here[kind], board.switches_of(kind)
            if kind in together:
                is_first = kind == together[0]
                at = _shared(board, here, parts, together[1:], least) if is_first else near
                cards = [card for card in cards if switches.get(card.minor) in at]
            if kind == "gpu":
                minors = packed(kind, part, cards) or _cards(board, part, cards, terms, strategy)
            else:
                minors = _others(part, cards, strategy, switches, near)
            at_switches = {switches[one] for one in minors if one in switches}
            found[kind] = minors if kind not in together[1:] or at_switches == near else ()
            if kind not in joint[1:]:
                near |= at_switches
        if all(found[kind] for kind in together):
            break
    return found


def _wanted(known: Kept, terms: DeviceTerms, kind: str) -> list[Card]:
    board, hint = known.board, hint_of(terms, kind)
    labels = {minor: at for (one, minor), at in board.labels.items() if one == kind}
    found = wanted(known.devices.get(kind, ()), hint, labels, board.switches_of(kind))
    if hint.functions is None:
        return found
    return [card for card in found if functions(known, kind, hint, card.minor)]


def _shared(
    board: Board, here: Mapping[str, Sequence[Card]], parts: Mapping[str, Part], kinds: Sequence[str], least: int
) -> set[str]:  # fmt: skip
    """Switches with ``least`` devices of each of these kinds for a pod, or with as many as the pod gets."""
    found = list[set[str]]()
    for kind in kinds:
        switches, part = board.switches_of(kind), parts[kind]
        at = Counter(
            switches[card.minor] for card in here[kind]
            if card.minor in switches and card.takes(part.amounts)
        )  # fmt: skip
        found.append({switch for switch, count in at.items() if count >= min(least, part.count)})
    return set.intersection(*found)


def _others(
    part: Part, cards: Sequence[Card], strategy: Strategy, switches: Mapping[int, str], near: Collection[str]
) -> tuple[int, ...]:  # fmt: skip
    """Devices other than GPUs: those at a switch of ``near`` first, of each switch one in turn."""
    scores = {
        one.minor: score(strategy, part.amounts, one.total, one.free) for one in cards if one.takes(part.amounts)
    }  # fmt: skip
    best = ordered(scores, switches, near)
    if part.more == "all":
        return tuple(best) if best and len(best) == len(cards) else ()
    if len(best) < part.count:
        return ()
    further = best[part.count : len(near)] if part.more == "switches" else []
    return (*best[: part.count], *(one for one in further if switches.get(one) in near))


def _cards(
    board: Board, part: Part, cards: Sequence[Card], terms: DeviceTerms, strategy: Strategy
) -> tuple[int, ...]:
    level = LEVELS.get(hint_of(terms, "gpu").scope, 0)
    if level == LEVELS["Device"]:
        if part.count > 1:
            return ()
        level = 0
    table, honors = board.table, board.honors
    tiers: Sequence[Sequence[tuple[int, ...]]] = board.tiers.get(part.count, ())
    if terms.partition and not part.is_share:
        if table is None:
            return ()
        honors, tiers = True, tiers_of(terms, tiers, board.bandwidths)
    if level > LEVELS["Node"]:
        tiers = [within(tier, board.scope, level) for tier in tiers]
        return chosen(part, cards, strategy, table=table, honors=honors, tiers=tiers, scope=board.scope, level=level)  # fmt: skip
    # A share of one card depends on the fill of the card alone, not on its neighbors.
    scope = None if part.is_share or table else board.scope
    return chosen(part, cards, strategy, table=table, honors=honors, tiers=tiers, scope=scope)

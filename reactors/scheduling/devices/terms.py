"""Device terms of pods beyond the number of devices, by Koordinator's annotations. Pure.

Source: koordinator-sh/koordinator, apis/extension (device_share.go); docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.events.constraints import DeviceHint, DeviceTerms, selects
from reactors.scheduling.columns.device_requests import FPGA, RDMA
from reactors.scheduling.devices.rules import WHOLE, Card, Part, Scope

#: Levels of scopes.
LEVELS = {"Node": 1, "NUMANode": 2, "PCIe": 3, "Device": 4}
_NAMES = {"rdma": RDMA, "fpga": FPGA}
_NO_HINT = DeviceHint()

Group = tuple[int, ...]


def with_terms(parts: Mapping[str, Part], terms: DeviceTerms) -> dict[str, Part]:
    """The parts of a pod's devices, by kind, as changed by its terms. The number of cards is the pod's request."""
    found = {kind: _part(kind, part, hint_of(terms, kind)) for kind, part in parts.items()}
    for kind in joint_kinds(found, terms)[1:]:
        if kind in _NAMES:
            found[kind] = msgspec.structs.replace(found[kind], more="switches")
    return found


def hint_of(terms: DeviceTerms, kind: str) -> DeviceHint:
    """The terms of a pod for its devices of a kind."""
    return terms.hints.get(kind, _NO_HINT)


def joint_kinds(parts: Mapping[str, Part], terms: DeviceTerms) -> list[str]:
    """The kinds of a pod's devices allocated near each other; [] for a single kind."""
    named = [kind for kind in terms.joint if kind in parts and parts[kind].more != "all"]
    return named if len(parts) > 1 else []


def _part(kind: str, part: Part, hint: DeviceHint) -> Part:
    name = _NAMES.get(kind)
    # A request of several devices is for whole ones, whatever the strategy.
    if name is None or part.count > 1:
        return part
    match hint.strategy:
        case "ApplyForAll":
            return msgspec.structs.replace(part, more="all")
        case "RequestsAsCount":
            amount = WHOLE if hint.exclusive == "DeviceLevel" else 1
            return Part({name: amount}, part.amounts[name], part.is_share)
    return part


def wanted(
    cards: Sequence[Card], hint: DeviceHint, labels: Mapping[int, Mapping[str, str]], switches: Mapping[int, str]
) -> list[Card]:  # fmt: skip
    """The devices of one kind allowed by a hint: those with its labels, and on request at switches without a used device."""
    found = [
        card for card in cards if hint.selector is None or selects(hint.selector, labels.get(card.minor, {}))
    ]  # fmt: skip
    if hint.exclusive != "PCIeLevel":
        return found
    used = {switches.get(card.minor, str(card.minor)) for card in cards if card.is_used}
    return [card for card in found if switches.get(card.minor, str(card.minor)) not in used]


def tiers_of(
    terms: DeviceTerms, tiers: Sequence[Sequence[Group]], bandwidths: Mapping[Group, int]
) -> list[list[Group]]:
    """Groups of a board for a pod, the best ones first; on request only the best ones of the board."""
    among = tiers[:1] if terms.partition == "Restricted" else tiers
    if not terms.bandwidth:
        return [list(tier) for tier in among]
    # A board without reported links of its cards has none.
    least = observed_quantity(terms.bandwidth)
    return [
        [one for one in tier if one in bandwidths and bandwidths[one] * NANO >= least]
        for tier in among
    ]


def within(groups: Iterable[Group], scope: Scope | None, level: int) -> list[Group]:
    """The groups within one scope of a level; none if the distances of cards are unknown."""
    scopes = [set(one) for one in _scopes(scope, level)]
    return [one for one in groups if any(each.issuperset(one) for each in scopes)]


def _scopes(scope: Scope | None, level: int) -> list[Collection[int]]:
    if scope is None:
        return []
    inner = [one for each in scope.inner for one in _scopes(each, level)]
    return [scope.minors, *inner] if scope.level >= level else inner

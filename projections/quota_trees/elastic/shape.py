"""An elastic quota, and the names and amounts that all its rules share.

Pure values. Amounts are `dict[str, int]` by resource name: cpu in milli-cores, everything else in
whole units (bytes, cards); every rule works on one resource at a time, so any unit will do as long
as it is the same throughout a tree. A missing key means zero where an amount is held or asked and
"no limit" where it is a limit; each function says which.
Source: Koordinator's ElasticQuota, docs/quotas.md; labels and annotations of
`quota.scheduling.koordinator.sh` become the fields here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

Resources = Mapping[str, int]
"""Resource name to amount, read only."""
NOTHING: Resources = MappingProxyType({})

ROOT = "koordinator-root-quota"
"""The parent of quotas that name none; it is no object and has no limits of its own."""
SYSTEM = "koordinator-system-quota"
DEFAULT = "koordinator-default-quota"
"""Where pods go that belong to no other quota."""
BUILT_IN = frozenset({ROOT, SYSTEM, DEFAULT})


class Quota(msgspec.Struct, frozen=True):
    """One elastic quota as its object says.

    `max` is the upper limit, `min` what it gets whatever others ask, `weight` its part in what is
    left over (`None`: never stated). `lends`: what it does not ask for goes to others, its min too.
    `is_parent`: holds quotas, not pods. `tree_id` names its tree, `tree_root` that it is the top
    of one; `force_update` skips the checks of mins. `namespaces`: pods of these go into it.
    `strict_max_keys`: max may not be set below what is used of these.
    """

    name: str
    parent: str = ROOT
    max: dict[str, int] = {}
    min: dict[str, int] = {}
    weight: dict[str, int] | None = None
    lends: bool = True
    is_parent: bool = False
    tree_id: str = ""
    tree_root: bool = False
    force_update: bool = False
    namespace: str = ""
    namespaces: tuple[str, ...] = ()
    strict_max_keys: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    """Why something is refused: a stable token and the resources concerned, sorted."""

    reason: str
    keys: tuple[str, ...] = ()


def shared_weight(quota: Quota) -> Resources:
    """The weights by which a quota takes part: max where none was stated or all are zero."""
    weight = quota.weight
    return weight if weight and any(weight.values()) else quota.max


def raised(request: Resources, least: Resources) -> dict[str, int]:
    """A request raised to `least`; the keys of both."""
    result = dict(request)
    for key, value in least.items():
        if value > result.get(key, 0):
            result[key] = value
        else:
            result.setdefault(key, 0)
    return result


def shown(amounts: Resources, keys: Iterable[str]) -> dict[str, int]:
    """Amounts without zeros, but with these keys in any case: equal amounts then compare equal."""
    return dict.fromkeys(keys, 0) | {key: value for key, value in amounts.items() if value}


def add(total: dict[str, int], more: Resources, times: int = 1) -> None:
    """Add `more`, so many times, to `total` in place; the keys of both."""
    for key, value in more.items():
        total[key] = total.get(key, 0) + times * value

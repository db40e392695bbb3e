"""An elastic quota, and the names and amounts of all its rules.

Pure values. Amounts are `dict[str, int]` by resource name: cpu in milli-cores, everything else in whole units
(bytes, cards); every rule works on one resource at a time, so any unit will do as long as it is the same throughout
a tree. A missing key means zero for a usage or a request and "no limit" for a limit; each function names the
meaning. Source: Koordinator's ElasticQuota, docs/quotas.md; labels and annotations of
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


class ElasticQuota(msgspec.Struct, frozen=True):
    """One elastic quota from its object.

    `max` is the upper limit, `min` its certain amount, `weight` its part in the rest (`None`: missing). `lends`:
    its unrequested share goes to others, its min too. `is_parent`: holds quotas, not pods. `tree_id` names its
    tree, `tree_root` marks the top of one; `force_update` skips the checks of mins. `namespaces`: pods of these go
    into it. `strict_max_keys`: max may not be set below the usage of these.
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
    """The reason of a refusal: a stable token and the resources concerned, sorted."""

    reason: str
    keys: tuple[str, ...] = ()


def shared_weight(quota: ElasticQuota) -> Resources:
    """The weights of a quota in the division: max for a missing or all-zero weight."""
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

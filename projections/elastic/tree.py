"""A whole tree of elastic quotas: requests travel up, totals travel down.

Pure. `refreshed` states the rule in the plainest form, every quota from scratch; it is the state in
which Koordinator comes to rest when each quota has been refreshed. What changes one pod at a time
keeps an `ElasticTree` (`incremental`), which gives the same figures.

Up: a quota asks for its pods and for what its children ask, each child cut to its max; one that
does not lend asks for its min at least. Down: a quota's runtime is the total of its children. The
root's total is the cluster's less what the system quota and the default quota use; these two are
beside the tree, with their max as runtime.

Quotas whose parents do not lead to the root (a parent that is not known, a circle) are no part of
the tree: they have no figures, and their pods are nobody's request.

With `guarantee` (Koordinator's gate ElasticQuotaGuaranteeUsage) nobody lends, and no floor is below
what is in use: a quota is guaranteed its min or, if more, what its own pods use and its children
are guaranteed.
Source: Koordinator `group_quota_manager.go`; `koordinator.md` sections 2.2 to 2.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from projections.elastic.runtime import Claim, Rounding, floor, largest_remainder, runtimes
from projections.elastic.scaling import scaled_mins
from projections.elastic.shape import (
    BUILT_IN,
    DEFAULT,
    ROOT,
    SYSTEM,
    Quota,
    Resources,
    add,
    distributable,
    limited,
    raised,
    shared_weight,
    shown,
)


class Mode(msgspec.Struct, frozen=True):
    """Which variant of the rules a tree follows.

    `scale_min`: mins shrink in proportion where a parent has less than their sum. `guarantee`:
    what is in use is guaranteed. `rounding`: of the shares.
    """

    scale_min: bool = True
    guarantee: bool = False
    rounding: Rounding = largest_remainder


class Figures(msgspec.Struct, frozen=True):
    """What is known of one quota, all with what is below it.

    `limited` is the request cut to max, `effective_min` the min after scaling; `allocated` and
    `guaranteed` are of the mode `guarantee`, else empty. `runtime` has the keys of max,
    `effective_min` those of min; the others have the keys of max and what else is not zero.
    """

    request: dict[str, int]
    limited: dict[str, int]
    used: dict[str, int]
    effective_min: dict[str, int]
    runtime: dict[str, int]
    allocated: dict[str, int]
    guaranteed: dict[str, int]


class _Asked(msgspec.Struct):
    request: dict[str, int]
    limited: dict[str, int]
    used: dict[str, int]
    allocated: dict[str, int]
    guaranteed: dict[str, int]


def refreshed(
    quotas: Iterable[Quota],
    cluster: Resources,
    requests: Mapping[str, Resources],
    used: Mapping[str, Resources] | None = None,
    mode: Mode = Mode(),
) -> dict[str, Figures]:
    """The figures of every quota of the tree by name, sorted, all from scratch.

    `cluster` is allocatable of all nodes; `requests` and `used` are of a quota's own pods.
    """
    held = used or {}
    known = {quota.name: quota for quota in quotas}
    children: dict[str, list[Quota]] = defaultdict(list)
    for name in sorted(known.keys() - BUILT_IN):
        children[known[name].parent].append(known[name])
    asked: dict[str, _Asked] = {}
    figures: dict[str, Figures] = {}

    def ask(quota: Quota) -> _Asked:
        below = [ask(child) for child in children[quota.name]]
        asked[quota.name] = _asked(
            quota, below, requests.get(quota.name, {}), held.get(quota.name, {}), mode
        )
        return asked[quota.name]

    def divide(parent: str, total: Resources) -> None:
        claimed = [(quota, asked[quota.name]) for quota in children[parent]]
        for name, (least, runtime) in _divided(total, claimed, mode).items():
            figures[name] = _figures(known[name], asked[name], least, runtime, mode)
            divide(name, runtime)

    for quota in children[ROOT]:
        ask(quota)
    divide(ROOT, distributable(cluster, held.get(SYSTEM, {}), held.get(DEFAULT, {})))
    for name in sorted(known.keys() & {SYSTEM, DEFAULT}):
        own = _asked(known[name], (), requests.get(name, {}), held.get(name, {}), mode)
        figures[name] = _figures(known[name], own, known[name].min, known[name].max, mode)
    return dict(sorted(figures.items()))


def _asked(
    quota: Quota, below: Iterable[_Asked], request: Resources, used: Resources, mode: Mode
) -> _Asked:
    wanted, held, allocated = dict(request), dict(used), dict(used)
    for child in below:
        add(wanted, child.limited)
        add(held, child.used)
        add(allocated, child.guaranteed)
    if mode.guarantee or not quota.lends:
        wanted = raised(wanted, quota.min)
    if not mode.guarantee:
        return _Asked(wanted, limited(wanted, quota.max), held, {}, {})
    guaranteed = raised(allocated, quota.min)
    return _Asked(wanted, limited(wanted, quota.max), held, allocated, guaranteed)


def _divided(
    total: Resources, claimed: list[tuple[Quota, _Asked]], mode: Mode
) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
    """Effective min and runtime of each of the children of one parent."""
    result: dict[str, tuple[dict[str, int], dict[str, int]]] = {
        quota.name: ({}, {}) for quota, _ in claimed
    }
    for key in sorted({key for quota, _ in claimed for key in (*quota.max, *quota.min)}):
        amount = total.get(key, 0)
        mins = {quota.name: quota.min.get(key, 0) for quota, _ in claimed}
        if mode.scale_min:
            mins = scaled_mins(amount, mins)
        claims = [
            Claim(
                quota.name,
                floor(mins[quota.name], asked.guaranteed.get(key, 0)),
                asked.limited.get(key, 0),
                shared_weight(quota).get(key, 0),
                quota.lends and not mode.guarantee,
            )
            for quota, asked in claimed
        ]
        shares = runtimes(amount, claims, mode.rounding)
        for quota, _ in claimed:
            least, runtime = result[quota.name]
            if key in quota.min:
                least[key] = mins[quota.name]
            if key in quota.max:
                runtime[key] = shares[quota.name]
    return result


def _figures(
    quota: Quota, asked: _Asked, least: dict[str, int], runtime: dict[str, int], mode: Mode
) -> Figures:
    keys = quota.max
    return Figures(
        shown(asked.request, keys),
        shown(asked.limited, keys),
        shown(asked.used, keys),
        least,
        runtime,
        shown(asked.allocated, keys if mode.guarantee else ()),
        shown(asked.guaranteed, keys if mode.guarantee else ()),
    )

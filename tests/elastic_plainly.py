"""The rules of elastic quotas in their plainest form, every quota from scratch: what the product's tree is compared with.

`refreshed` is the state in which Koordinator comes to rest when each quota has been refreshed. `half_up` is how Koordinator
rounded before 1.1, which the product does not. `Kept` is the product's tree, told sums instead of changes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from projections.quota_trees.elastic import (
    BUILT_IN,
    DEFAULT,
    ROOT,
    SYSTEM,
    ChildShare,
    ElasticQuota,
    ElasticTree,
    Figures,
    Mode,
    PodSums,
    Resources,
    runtimes,
    scaled_mins,
    shared_weight,
)
from projections.quota_trees.elastic.runtime import floor
from projections.quota_trees.elastic.shape import add, raised, shown


class Kept(ElasticTree):
    """The product's tree, which may be told what a quota's own pods ask and use in place of what was said before."""

    def __init__(self, mode: Mode = Mode()) -> None:
        super().__init__(mode)
        self._said: dict[str, PodSums] = {}

    def set_pods(self, name: str, sums: PodSums) -> None:
        """The sums from now on."""
        old = self._said.get(name, PodSums())
        deltas = []
        for new_amounts, old_amounts in (
            (sums.request, old.request),
            (sums.used, old.used),
            (sums.non_preemptible_used, old.non_preemptible_used),
        ):
            delta = dict(new_amounts)
            add(delta, old_amounts, -1)
            deltas.append(delta)
        self.add_pods(name, PodSums(*deltas))

    def add_pods(self, name: str, change: PodSums) -> None:
        """A change, remembered."""
        said = self._said.setdefault(name, PodSums({}, {}, {}))
        add(said.request, change.request)
        add(said.used, change.used)
        add(said.non_preemptible_used, change.non_preemptible_used)
        super().add_pods(name, change)


def half_up(pool: int, weights: int, borrowers: Sequence[ChildShare]) -> list[int]:
    """Shares by weight, each rounded half up by itself: they may sum to more or less than the pool."""
    return [
        int(float(max(one.weight, 0)) * float(pool) / float(weights) + 0.5) for one in borrowers
    ]


def limited(request: Resources, limit: Resources) -> dict[str, int]:
    """A request cut to a limit; a key that the limit lacks is not cut."""
    return {key: min(value, limit.get(key, value)) for key, value in request.items()}


def distributable(
    cluster: Resources, system_used: Resources, default_used: Resources
) -> dict[str, int]:
    """What the root hands out: allocatable of all nodes less what the two built-in quotas use.

    The keys of the cluster; negative where these two use more than there is.
    """
    return {
        key: value - system_used.get(key, 0) - default_used.get(key, 0)
        for key, value in cluster.items()
    }


class _Asked(msgspec.Struct):
    request: dict[str, int]
    limited: dict[str, int]
    used: dict[str, int]
    allocated: dict[str, int]
    guaranteed: dict[str, int]
    child_request: dict[str, int]


def refreshed(
    quotas: Iterable[ElasticQuota],
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
    children: dict[str, list[ElasticQuota]] = defaultdict(list)
    for name in sorted(known.keys() - BUILT_IN):
        children[known[name].parent].append(known[name])
    asked: dict[str, _Asked] = {}
    figures: dict[str, Figures] = {}

    def ask(quota: ElasticQuota) -> _Asked:
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
    quota: ElasticQuota, below: Iterable[_Asked], request: Resources, used: Resources, mode: Mode
) -> _Asked:
    wanted, held, allocated = dict(request), dict(used), dict(used)
    for child in below:
        add(wanted, child.limited)
        add(held, child.used)
        add(allocated, child.guaranteed)
    below_it = dict(wanted)
    if mode.guarantee or not quota.lends:
        wanted = raised(wanted, quota.min)
    if not mode.guarantee:
        return _Asked(wanted, limited(wanted, quota.max), held, {}, {}, below_it)
    guaranteed = raised(allocated, quota.min)
    return _Asked(wanted, limited(wanted, quota.max), held, allocated, guaranteed, below_it)


def _divided(
    total: Resources, claimed: list[tuple[ElasticQuota, _Asked]], mode: Mode
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
            ChildShare(
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
    quota: ElasticQuota, asked: _Asked, least: dict[str, int], runtime: dict[str, int], mode: Mode
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
        shown(asked.child_request, keys),
    )

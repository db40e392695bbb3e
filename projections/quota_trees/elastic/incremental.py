"""A tree of elastic quotas that is kept up to date one change at a time.

In memory, without IO. It gives the same figures as dividing everything from scratch, after any changes in any order, but
touches only what a change reaches: what pods ask and use goes up at once, as far as it changes
anything (a quota at its max hides the rest); what is handed down is divided when somebody asks,
along the path to that quota, and only where a child or the total of that level is not as it was
when it was last divided. So a pod's change costs its depth, and a question the children of each
quota on the path.

Upstream keeps a version counter per level for the same purpose; here each division remembers the
total it was made from and is dropped when a child changes, which cannot be forgotten.
Source: Koordinator `group_quota_manager.go`; docs/quotas.md.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.engine.parts import Part
from projections.quota_trees.elastic.admission import Level
from projections.quota_trees.elastic.runtime import Claim, floor, runtimes
from projections.quota_trees.elastic.scaling import scaled_mins
from projections.quota_trees.elastic.shape import (
    BUILT_IN,
    DEFAULT,
    ROOT,
    SYSTEM,
    Quota,
    Resources,
    add,
    shared_weight,
    shown,
)
from projections.quota_trees.elastic.tree import Figures, Mode


class PodSums(msgspec.Struct):
    """Sums over a quota's own pods: what they ask, what those that run use, and of these the
    non-preemptible ones.
    """

    request: dict[str, int] = {}
    used: dict[str, int] = {}
    non_preemptible_used: dict[str, int] = {}


class _Division(NamedTuple):
    """How a total was divided; `mins` only where they were scaled for it."""

    total: int
    mins: dict[str, int] | None
    runtimes: dict[str, int]


class _Claims(NamedTuple):
    """What the children of a parent claim of one resource before any scaling, and their mins."""

    by_name: dict[str, Claim]
    mins: dict[str, int]
    total_min: int


class _Group:
    """The children of one parent: their claims of each resource, and how it was last divided."""

    __slots__ = ("children", "claims", "divided")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.claims: dict[str, _Claims] = {}
        self.divided: dict[str, _Division] = {}


class _Node:
    """A quota with the sums over it and all below; `up` is None where it stands beside the tree."""

    __slots__ = ("allocated", "asked", "held", "least", "limited", "quota", "up", "used", "weight")

    def __init__(self, quota: Quota, least: Resources) -> None:
        self.quota = quota
        self.weight = shared_weight(quota)
        self.least = least
        self.up: str | None = None
        self.asked: dict[str, int] = {}
        self.limited: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.allocated: dict[str, int] = {}

    def request(self, key: str) -> int:
        return max(self.asked.get(key, 0), self.least.get(key, 0))

    def guaranteed(self, key: str) -> int:
        return max(self.allocated.get(key, 0), self.quota.min.get(key, 0))


class SavedElasticTree(msgspec.Struct):
    """What a snapshot holds of a tree: what it was told. All sums and divisions follow from that."""

    _cluster: dict[str, int]
    _pods: dict[str, PodSums]
    quotas: list[Quota]


class ElasticTree(Part):
    """Quotas, their pods' sums and the cluster's total, in any order; figures of any quota."""

    Saved = SavedElasticTree
    derived = frozenset({"_mode", "_nodes", "_groups", "_circular"})

    def __init__(self, mode: Mode = Mode()) -> None:
        self._mode = mode
        self._cluster: dict[str, int] = {}
        self._pods: dict[str, PodSums] = {}
        self._nodes: dict[str, _Node] = {}
        self._groups: dict[str, _Group] = {}
        self._circular: set[str] = set()

    def saved(self) -> SavedElasticTree:
        """What it was told, the quota that was told last behind the others."""
        quotas = [node.quota for node in self._nodes.values()]
        return SavedElasticTree(self._cluster, self._pods, quotas)

    def restore(self, saved: SavedElasticTree) -> None:
        """Become what was saved, in a new tree."""
        self._cluster, self._pods = saved._cluster, saved._pods
        for quota in saved.quotas:
            self.set_quota(quota)

    def set_cluster(self, allocatable: Resources) -> None:
        """What all nodes have; what the system and the default quota use is taken off here."""
        self._cluster = dict(allocatable)

    def set_quota(self, quota: Quota) -> None:
        """Take a quota in, new or changed. Its pods may have been said before, its parent later."""
        if quota.name == ROOT:
            return
        self._take_out(quota.name)
        unlent = self._mode.guarantee or not quota.lends
        node = _Node(quota, quota.min if unlent else {})
        own = self._pods.get(quota.name, PodSums())
        node.asked, node.used = dict(own.request), dict(own.used)
        node.held = dict(own.non_preemptible_used)
        node.allocated = dict(own.used) if self._mode.guarantee else {}
        for child in self._children(quota.name):
            self._add_below(node, child)
        for key in {*node.asked, *node.least}:
            node.limited[key] = self._limited(node, key)
        self._nodes[quota.name] = node
        self._attach(node)
        for freed in sorted(self._circular):
            self._circular.discard(freed)
            self._attach(self._nodes[freed])

    def remove_quota(self, name: str) -> None:
        """Forget a quota. Its pods and children stay known, beside the tree until it comes back."""
        self._take_out(name)

    def add_pods(self, name: str, change: PodSums) -> None:
        """What a pod that comes, goes or changes adds to the sums of its quota; may be negative."""
        own = self._pods.setdefault(name, PodSums({}, {}, {}))
        add(own.request, change.request)
        add(own.used, change.used)
        add(own.non_preemptible_used, change.non_preemptible_used)
        for key, delta in change.request.items():
            self._ask(name, key, delta)
        self._use(name, change.used, change.non_preemptible_used, 1)
        for key, delta in change.used.items():
            self._allocate(name, key, delta)

    def runtime(self, name: str) -> dict[str, int]:
        """What a quota may use now, by the keys of its max; empty where it is beside the tree."""
        path = self._path(name)
        return self._divide(path)[-1] if path else {}

    def levels(self, name: str) -> list[Level]:
        """A quota and those above it, nearest first, as `admission.refusal` takes them.

        Empty where it is beside the tree: then nothing may be admitted.
        """
        path = self._path(name)
        pairs = zip(path, self._divide(path), strict=True)
        levels = [
            Level(node.quota.max, node.used, runtime, node.quota.min, node.held)
            for node, runtime in pairs
        ]
        return levels[::-1]

    def figures(self, name: str) -> Figures | None:
        """Everything known of a quota; None where it is beside the tree."""
        path = self._path(name)
        if not path:
            return None
        node, quota, above = path[-1], path[-1].quota, path[:-1]
        runtime = self._divide(path)[-1]
        least = dict(quota.min)
        if name not in BUILT_IN:
            total = self._divide(above)[-1] if above else None
            for key in least:
                mins = self._division(quota.parent, key, total).mins
                least[key] = mins[name] if mins is not None else least[key]
        keys = quota.max
        asked = {*node.asked, *node.least}
        return Figures(
            shown({key: node.request(key) for key in asked}, keys),
            shown(node.limited, keys),
            shown(node.used, keys),
            least,
            runtime,
            *self._guaranteed(node),
            shown(node.asked, keys),
        )

    def _guaranteed(self, node: _Node) -> tuple[dict[str, int], dict[str, int]]:
        if not self._mode.guarantee:
            return {}, {}
        keys = node.quota.max
        guaranteed = {key: node.guaranteed(key) for key in {*node.allocated, *node.quota.min}}
        return shown(node.allocated, keys), shown(guaranteed, keys)

    # --- up ----------------------------------------------------------------------------------

    def _ask(self, name: str, key: str, delta: int) -> None:
        node = self._nodes.get(name)
        while node is not None and delta:
            node.asked[key] = node.asked.get(key, 0) + delta
            before, after = node.limited.get(key, 0), self._limited(node, key)
            node.limited[key] = after
            delta = after - before
            if delta:
                self._forget(node, key)
            node = self._above(node)

    def _use(self, name: str, used: Resources, held: Resources, times: int) -> None:
        node = self._nodes.get(name)
        while node is not None:
            add(node.used, used, times)
            add(node.held, held, times)
            node = self._above(node)

    def _allocate(self, name: str, key: str, delta: int) -> None:
        if not self._mode.guarantee:
            return
        node = self._nodes.get(name)
        while node is not None and delta:
            before = node.guaranteed(key)
            node.allocated[key] = node.allocated.get(key, 0) + delta
            delta = node.guaranteed(key) - before
            if delta:
                self._forget(node, key)
            node = self._above(node)

    def _limited(self, node: _Node, key: str) -> int:
        request = node.request(key)
        return min(request, node.quota.max.get(key, request))

    def _above(self, node: _Node) -> _Node | None:
        return self._nodes.get(node.up) if node.up is not None else None

    def _forget(self, node: _Node, key: str) -> None:
        """Claim anew for a node whose claim is not what it was when its parent was last divided."""
        if node.up is None:
            return
        group = self._groups[node.up]
        group.divided.pop(key, None)
        claims = group.claims.get(key)
        if claims is not None:
            claims.by_name[node.quota.name] = self._claim(node, key)

    # --- the shape of the tree ---------------------------------------------------------------

    def _children(self, name: str) -> list[_Node]:
        group = self._groups.get(name)
        return list(group.children.values()) if group else []

    def _add_below(self, node: _Node, child: _Node) -> None:
        add(node.asked, child.limited)
        add(node.used, child.used)
        add(node.held, child.held)
        for key in {*child.allocated, *child.quota.min} if self._mode.guarantee else ():
            node.allocated[key] = node.allocated.get(key, 0) + child.guaranteed(key)

    def _attach(self, node: _Node) -> None:
        """Hang a node under its parent, unless that hangs below the node itself.

        The built-in quotas stand beside the tree and hold no quotas.
        """
        name, parent = node.quota.name, node.quota.parent
        if name in BUILT_IN or parent in {SYSTEM, DEFAULT}:
            return
        above: str | None = parent
        while above is not None and above != name:
            found = self._nodes.get(above)
            above = found.up if found else None
        if above == name:
            self._circular.add(name)
            return
        node.up = parent
        self._groups.setdefault(parent, _Group()).children[name] = node
        self._carry(node, 1)

    def _take_out(self, name: str) -> None:
        node = self._nodes.pop(name, None)
        self._circular.discard(name)
        if node is None or node.up is None:
            return
        self._carry(node, -1)
        del self._groups[node.up].children[name]

    def _carry(self, node: _Node, times: int) -> None:
        """Add what a node has to everything above it, or take it off."""
        parent = node.quota.parent
        self._groups[parent].claims.clear()
        self._groups[parent].divided.clear()
        for key, amount in node.limited.items():
            self._ask(parent, key, times * amount)
        self._use(parent, node.used, node.held, times)
        for key in {*node.allocated, *node.quota.min}:
            self._allocate(parent, key, times * node.guaranteed(key))

    # --- down --------------------------------------------------------------------------------

    def _path(self, name: str) -> list[_Node]:
        """The nodes from below the root to a quota; none where it does not hang on the root."""
        node = self._nodes.get(name)
        if name in BUILT_IN:
            return [node] if node else []
        path = []
        while node is not None:
            path.append(node)
            if node.up == ROOT:
                return path[::-1]
            node = self._above(node)
        return []

    def _divide(self, path: list[_Node]) -> list[dict[str, int]]:
        """The runtime of each quota of a path."""
        result: list[dict[str, int]] = []
        for node in path:
            quota, above = node.quota, result[-1] if result else None
            if quota.name in BUILT_IN:
                result.append(dict(quota.max))
                continue
            result.append(
                {
                    key: self._division(quota.parent, key, above).runtimes[quota.name]
                    for key in quota.max
                }
            )
        return result

    def _division(self, parent: str, key: str, runtime: Resources | None) -> _Division:
        """How the parent's runtime (None: the root's total) of a resource is divided now."""
        total = self._root_total(key) if runtime is None else runtime.get(key, 0)
        group = self._groups[parent]
        found = group.divided.get(key)
        if found is None or found.total != total:
            found = group.divided[key] = self._divided(group, key, total)
        return found

    def _root_total(self, key: str) -> int:
        if key not in self._cluster:
            return 0
        built_in = (self._pods[name] for name in (SYSTEM, DEFAULT) if name in self._pods)
        return self._cluster[key] - sum(own.used.get(key, 0) for own in built_in)

    def _divided(self, group: _Group, key: str, total: int) -> _Division:
        claims = group.claims.get(key)
        if claims is None:
            claims = group.claims[key] = self._claims(group, key)
        if not self._mode.scale_min or total >= claims.total_min:
            shares = runtimes(total, claims.by_name.values(), self._mode.rounding)
            return _Division(total, None, shares)
        mins = scaled_mins(total, claims.mins)
        scaled = (self._claim(node, key, mins[name]) for name, node in group.children.items())
        return _Division(total, mins, runtimes(total, scaled, self._mode.rounding))

    def _claims(self, group: _Group, key: str) -> _Claims:
        by_name = {name: self._claim(node, key) for name, node in group.children.items()}
        mins = {name: node.quota.min.get(key, 0) for name, node in group.children.items()}
        return _Claims(by_name, mins, sum(mins.values()))

    def _claim(self, node: _Node, key: str, scaled: int | None = None) -> Claim:
        guarantee, quota = self._mode.guarantee, node.quota
        least = quota.min.get(key, 0) if scaled is None else scaled
        return Claim(
            quota.name,
            floor(least, node.guaranteed(key)) if guarantee else least,
            node.limited.get(key, 0),
            node.weight.get(key, 0),
            quota.lends and not guarantee,
        )

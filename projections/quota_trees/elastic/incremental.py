"""A tree of elastic quotas, kept up to date one change at a time.

In memory, without IO. The figures are those of dividing everything from scratch, after any changes in any order. A change
touches few quotas:

- The requests and the use of pods are added to the quotas above at once, up to the first quota with unchanged sums,
  such as one at its max.
- The runtime of a quota is divided when it is read, along the path from the root to that quota. A level is divided again only if
  one of its quotas or its total changed.

So a change of a pod costs the depth of its quota, and a read costs the children of each quota on the path.

Upstream keeps a version counter per level for the same purpose; here each division remembers its total and is
dropped when a child changes, never forgotten. Source: Koordinator `group_quota_manager.go`; docs/quotas.md.
"""

from __future__ import annotations

import msgspec

from projections.engine.parts import Part
from projections.quota_trees.elastic.admission import Level
from projections.quota_trees.elastic.division import Division, Group, QuotaNode
from projections.quota_trees.elastic.shape import (
    BUILT_IN,
    DEFAULT,
    ROOT,
    SYSTEM,
    ElasticQuota,
    Resources,
    add,
    shown,
)
from projections.quota_trees.elastic.tree import Figures, Mode


class PodSums(msgspec.Struct):
    """Sums over a quota's own pods: their requests, the use of running pods, and of these the non-preemptible ones."""

    request: dict[str, int] = {}
    used: dict[str, int] = {}
    non_preemptible_used: dict[str, int] = {}


class SavedElasticTree(msgspec.Struct):
    """The part of a snapshot for a tree: its inputs. All sums and divisions are computed from these."""

    _cluster: dict[str, int]
    _pods: dict[str, PodSums]
    quotas: list[ElasticQuota]


class ElasticTree(Part):
    """Quotas, their pods' sums and the cluster's total, in any order; figures of any quota."""

    Saved = SavedElasticTree
    derived = frozenset({"_mode", "_nodes", "_groups", "_circular"})

    def __init__(self, mode: Mode = Mode()) -> None:
        self._mode = mode
        self._cluster: dict[str, int] = {}
        self._pods: dict[str, PodSums] = {}
        self._nodes: dict[str, QuotaNode] = {}
        self._groups: dict[str, Group] = {}
        self._circular: set[str] = set()

    def saved(self) -> SavedElasticTree:
        """Its inputs, the last changed quota behind the others."""
        quotas = [node.quota for node in self._nodes.values()]
        return SavedElasticTree(self._cluster, self._pods, quotas)

    def restore(self, saved: SavedElasticTree) -> None:
        """Load the saved state, in a new tree."""
        self._cluster, self._pods = saved._cluster, saved._pods
        for quota in saved.quotas:
            self.set_quota(quota)

    def set_cluster(self, allocatable: Resources) -> None:
        """The allocatable amounts of all nodes; the use by the system and the default quota is subtracted here."""
        self._cluster = dict(allocatable)

    def set_quota(self, quota: ElasticQuota) -> None:
        """Take a quota in, new or changed. Its pods may have been seen before, its parent later."""
        if quota.name == ROOT:
            return
        self._take_out(quota.name)
        unlent = self._mode.guarantee or not quota.lends
        node = QuotaNode(quota, quota.min if unlent else {})
        own = self._pods.get(quota.name, PodSums())
        node.asked, node.used = dict(own.request), dict(own.used)
        node.held = dict(own.non_preemptible_used)
        node.allocated = dict(own.used) if self._mode.guarantee else {}
        for child in self._children(quota.name):
            self._add_below(node, child)
        for key in {*node.asked, *node.least}:
            node.limited[key] = node.limit(key)
        self._nodes[quota.name] = node
        self._attach(node)
        for freed in sorted(self._circular):
            self._circular.discard(freed)
            self._attach(self._nodes[freed])

    def remove_quota(self, name: str) -> None:
        """Forget a quota. Its pods and children stay known, beside the tree until it comes back."""
        self._take_out(name)

    def add_pods(self, name: str, change: PodSums) -> None:
        """The change of a quota's sums by a new, gone or changed pod; may be negative."""
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
        """The current share of a quota, by the keys of its max; empty beside the tree."""
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

    def _guaranteed(self, node: QuotaNode) -> tuple[dict[str, int], dict[str, int]]:
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
            before, after = node.limited.get(key, 0), node.limit(key)
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

    def _above(self, node: QuotaNode) -> QuotaNode | None:
        return self._nodes.get(node.up) if node.up is not None else None

    def _forget(self, node: QuotaNode, key: str) -> None:
        """Claim anew for a node with a changed claim since its parent's last division."""
        if node.up is not None:
            self._groups[node.up].claim_anew(node, key)

    # --- the shape of the tree ---------------------------------------------------------------

    def _children(self, name: str) -> list[QuotaNode]:
        group = self._groups.get(name)
        return list(group.children.values()) if group else []

    def _add_below(self, node: QuotaNode, child: QuotaNode) -> None:
        add(node.asked, child.limited)
        add(node.used, child.used)
        add(node.held, child.held)
        for key in {*child.allocated, *child.quota.min} if self._mode.guarantee else ():
            node.allocated[key] = node.allocated.get(key, 0) + child.guaranteed(key)

    def _attach(self, node: QuotaNode) -> None:
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
        if parent not in self._groups:
            self._groups[parent] = Group(self._mode)
        self._groups[parent].children[name] = node
        self._carry(node, 1)

    def _take_out(self, name: str) -> None:
        node = self._nodes.pop(name, None)
        self._circular.discard(name)
        if node is None or node.up is None:
            return
        self._carry(node, -1)
        del self._groups[node.up].children[name]

    def _carry(self, node: QuotaNode, times: int) -> None:
        """Add a node's sums to everything above it, or subtract them."""
        parent = node.quota.parent
        self._groups[parent].forget()
        for key, amount in node.limited.items():
            self._ask(parent, key, times * amount)
        self._use(parent, node.used, node.held, times)
        for key in {*node.allocated, *node.quota.min}:
            self._allocate(parent, key, times * node.guaranteed(key))

    # --- down --------------------------------------------------------------------------------

    def _path(self, name: str) -> list[QuotaNode]:
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

    def _divide(self, path: list[QuotaNode]) -> list[dict[str, int]]:
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

    def _division(self, parent: str, key: str, runtime: Resources | None) -> Division:
        """How the parent's runtime (None: the root's total) of a resource is divided now."""
        total = self._root_total(key) if runtime is None else runtime.get(key, 0)
        return self._groups[parent].division(key, total)

    def _root_total(self, key: str) -> int:
        if key not in self._cluster:
            return 0
        built_in = (self._pods[name] for name in (SYSTEM, DEFAULT) if name in self._pods)
        return self._cluster[key] - sum(own.used.get(key, 0) for own in built_in)

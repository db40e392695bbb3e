"""Whether a quota may be created, changed or deleted.

Pure: the first broken rule is returned, None if all are met. The topology is the one before; the caller applies
accepted changes. Cost: the children of the quota and those of its parent.

Two changes accepted by upstream are refused: a quota below itself, and a change of the weight alone to a negative
one. Source: Koordinator `ValidAddQuota`, `ValidUpdateQuota`, `ValidDeleteQuota`; docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from projections.quota_trees.elastic import rules
from projections.quota_trees.elastic.shape import (
    BUILT_IN,
    NOTHING,
    ROOT,
    SYSTEM,
    ElasticQuota,
    Refusal,
    Resources,
)
from projections.quota_trees.elastic.topology import Topology


class Gates(msgspec.Struct, frozen=True):
    """Rules of newer releases, all off by default there and here.

    `subset_keys`: a child's max may have fewer keys than its parent's. `guaranteed`: by quota its guaranteed
    amounts, for the check of mins.
    """

    subset_keys: bool = False
    guaranteed: Callable[[str], Resources] | None = None


def create(
    topology: Topology, quota: ElasticQuota, *, used: Resources = NOTHING, gates: Gates = Gates()
) -> Refusal | None:
    """Why a quota, with its defaults filled in, may not be created."""
    if topology.get(quota.name) is not None:
        return Refusal("quota_exists")
    return _broken(topology, quota, None, used, has_pods=False, gates=gates)


def update(
    topology: Topology,
    quota: ElasticQuota,
    *,
    has_pods: bool,
    used: Resources = NOTHING,
    gates: Gates = Gates(),
) -> Refusal | None:
    """Why a quota may not be changed to this; `has_pods`: pods of whatever state belong to it."""
    if quota.name in {ROOT, SYSTEM}:
        return Refusal("built_in_quota")
    old = topology.get(quota.name)
    if old is None:
        return Refusal("quota_not_found")
    return _broken(topology, quota, old, used, has_pods=has_pods, gates=gates)


def delete(topology: Topology, name: str, *, has_pods: bool) -> Refusal | None:
    """Why a quota may not be deleted: built in, unknown, or not empty."""
    if name in BUILT_IN:
        return Refusal("built_in_quota")
    if topology.get(name) is None:
        return Refusal("quota_not_found")
    if topology.children(name):
        return Refusal("has_children")
    return Refusal("has_pods") if has_pods else None


def _broken(
    topology: Topology,
    quota: ElasticQuota,
    old: ElasticQuota | None,
    used: Resources,
    *,
    has_pods: bool,
    gates: Gates,
) -> Refusal | None:
    if any(topology.of_namespace(one) not in {None, quota.name} for one in quota.namespaces):
        return Refusal("namespace_bound")
    if broken := rules.check_self(quota, used):
        return broken
    if quota.name == ROOT:
        return None
    parent = topology.get(quota.parent) if quota.parent != ROOT else None
    children = topology.children(quota.name)
    if old is not None and (
        broken := rules.check_is_parent(quota, old, has_children=bool(children), has_pods=has_pods)
    ):
        return broken
    if _below_itself(topology, quota, parent):
        return Refusal("parent_is_below")
    return (
        rules.check_tree_id(quota, parent, children, old)
        or rules.check_parent(quota, parent)
        or rules.check_keys(quota, parent, children, subset=gates.subset_keys)
        or rules.check_min_sum(quota, parent, topology.children(quota.parent), children)
        or _uncovered(topology, quota, gates)
    )


def _below_itself(topology: Topology, quota: ElasticQuota, parent: ElasticQuota | None) -> bool:
    if parent is None:
        return False
    return quota.name in {parent.name, *(above.name for above in topology.ancestors(parent))}


def _uncovered(topology: Topology, quota: ElasticQuota, gates: Gates) -> Refusal | None:
    if gates.guaranteed is None:
        return None
    above = [(one, topology.children(one.name)) for one in topology.ancestors(quota)]
    return rules.check_guarantee(quota, above, gates.guaranteed)

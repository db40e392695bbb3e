"""The rules for an elastic quota's acceptance, and the defaults at its creation.

Pure. Each check answers for one rule, with the reason's token and the keys concerned; `review` asks them in order.
`parent` is None for quotas right below the root: it has no amounts and no tree. Source: Koordinator
`quota_topology.go`, `quota_topology_check.go`; docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from projections.quota_trees.elastic.shape import (
    ROOT,
    ElasticQuota,
    Refusal,
    Resources,
    add,
    raised,
)


def with_defaults(quota: ElasticQuota, parent: ElasticQuota | None) -> ElasticQuota:
    """A new quota with defaults for missing fields: the root as parent, its parent's tree, max as weight.

    The weight gets the keys of max: the missing ones as max, others go. Zeros stay as they are.
    """
    weight = quota.weight or {}
    return msgspec.structs.replace(
        quota,
        parent=quota.parent or ROOT,
        tree_id=quota.tree_id or (parent.tree_id if parent else ""),
        weight={key: weight.get(key, value) for key, value in quota.max.items()},
    )


def check_self(quota: ElasticQuota, used: Resources) -> Refusal | None:
    """No negative amounts; min within max and its keys; max not below the strictly checked usage."""
    for reason, amounts in (
        ("max_negative", quota.max),
        ("min_negative", quota.min),
        ("weight_negative", quota.weight or {}),
    ):
        if keys := _keys(key for key, value in amounts.items() if value < 0):
            return Refusal(reason, keys)
    strict = [key for key in quota.strict_max_keys if key in used]
    if keys := _keys(quota.min.keys() - quota.max.keys()):
        return Refusal("min_key_not_in_max", keys)
    if keys := _beyond(quota.min, quota.max):
        return Refusal("min_over_max", keys)
    if keys := _keys(key for key in strict if key not in quota.max):
        return Refusal("used_key_not_in_max", keys)
    if keys := _keys(key for key in strict if quota.max[key] < used[key]):
        return Refusal("max_below_used", keys)
    return None


def check_parent(quota: ElasticQuota, parent: ElasticQuota | None) -> Refusal | None:
    """A parent other than the root must be there and be a parent quota."""
    if quota.parent == ROOT:
        return None
    if parent is None:
        return Refusal("parent_not_found")
    return None if parent.is_parent else Refusal("parent_is_not_a_parent_quota")


def check_tree_id(
    quota: ElasticQuota,
    parent: ElasticQuota | None,
    children: Iterable[ElasticQuota],
    old: ElasticQuota | None = None,
) -> Refusal | None:
    """The tree never changes, and is the same as the parent's and the children's."""
    if old is not None and old.tree_id != quota.tree_id:
        return Refusal("tree_id_changed")
    if parent is not None and parent.tree_id != quota.tree_id:
        return Refusal("tree_id_not_of_parent")
    if any(child.tree_id != quota.tree_id for child in children):
        return Refusal("tree_id_not_of_children")
    return None


def check_is_parent(
    quota: ElasticQuota, old: ElasticQuota, *, has_children: bool, has_pods: bool
) -> Refusal | None:
    """Whether a quota holds quotas or pods may change only while it holds neither of the old kind."""
    if quota.is_parent == old.is_parent:
        return None
    if has_children and not quota.is_parent:
        return Refusal("has_children")
    return Refusal("has_pods") if has_pods and quota.is_parent else None


def check_keys(
    quota: ElasticQuota,
    parent: ElasticQuota | None,
    children: Iterable[ElasticQuota],
    *,
    subset: bool = False,
) -> Refusal | None:
    """Each child has the keys of its parent's max and in min only keys of its parent's min.

    With `subset` (a newer gate) the keys of max need only be among the parent's.
    """
    pairs = [(parent, quota)] if parent is not None else []
    for above, below in pairs + [(quota, child) for child in children]:
        odd = below.max.keys() - above.max.keys() if subset else below.max.keys() ^ above.max.keys()
        if odd:
            return Refusal("max_keys", _keys(odd))
        if odd := below.min.keys() - above.min.keys():
            return Refusal("min_keys", _keys(odd))
    return None


def check_min_sum(
    quota: ElasticQuota,
    parent: ElasticQuota | None,
    siblings: Iterable[ElasticQuota],
    children: Iterable[ElasticQuota],
) -> Refusal | None:
    """The mins of a quota and its siblings fit into the parent's, those of its children into its own.

    Not asked of the top of a tree nor of a forced update; the root has no min to fit into.
    """
    if quota.tree_root or quota.force_update:
        return None
    if parent is not None:
        others = [one for one in siblings if one.name != quota.name]
        if keys := _beyond(_min_sum([quota, *others]), parent.min):
            return Refusal("siblings_over_parent", keys)
    if keys := _beyond(_min_sum(children), quota.min):
        return Refusal("children_over_self", keys)
    return None


def _min_sum(quotas: Iterable[ElasticQuota]) -> dict[str, int]:
    result: dict[str, int] = {}
    for quota in quotas:
        add(result, quota.min)
    return result


def _beyond(amounts: Resources, limit: Resources) -> tuple[str, ...]:
    """The keys with more than the limit; a key missing there is zero."""
    return _keys(key for key, value in amounts.items() if value > limit.get(key, 0))


def _keys(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def check_guarantee(
    quota: ElasticQuota,
    above: Iterable[tuple[ElasticQuota, Iterable[ElasticQuota]]],
    guaranteed: Callable[[str], Resources],
) -> Refusal | None:
    """A min above the current guarantee must be covered by an ancestor.

    `above`: the ancestors with their children, nearest first, to the top of the tree. Each in turn would have to
    guarantee its min or, if more, all its children's guarantees; the first one with enough guaranteed already ends
    the search. For the gate ElasticQuotaGuaranteeUsage, in trees with an id only.
    """
    if quota.force_update or quota.tree_root or not quota.tree_id:
        return None
    if not _beyond(quota.min, guaranteed(quota.name)):
        return None
    name, needed = quota.name, raised(guaranteed(quota.name), quota.min)
    for parent, children in above:
        for child in children:
            if child.name != name:
                add(needed, guaranteed(child.name))
        needed = raised(needed, parent.min)
        if not _beyond(needed, guaranteed(parent.name)):
            return None
        name = parent.name
    return Refusal("min_not_guaranteed")
